import pytest

from flushlab.workload.txn.statements import Mistake, Sentence, read_statements


def only(text: str) -> Sentence:
    (sentence,) = read_statements(text)
    return sentence


def test_parameters_become_marks_and_their_places_are_known() -> None:
    sentence = only("UPDATE t SET a = :new WHERE id = :id OR id = :id")
    assert sentence.sql == "UPDATE t SET a = ? WHERE id = ? OR id = ?"
    assert sentence.parameters == (("new", 17), ("id", 33), ("id", 45))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ':a', \":b\", `:c`",
        "SELECT 'it''s :a', 'it\\'s :a'",
        "SELECT @x:=1, 'a'::b",
        "SELECT 1 -- :a\n",
        "SELECT 1 # :a\n",
        "SELECT /* :a ? */ 1",
    ],
)
def test_what_stands_in_strings_and_comments_is_no_parameter(text: str) -> None:
    assert only(text).parameters == ()


def test_conditional_comments_and_hints_are_code() -> None:
    assert only("SELECT /*+ MAX_EXECUTION_TIME(1) */ /*!50000 :a */ 1").parameters == (("a", 45),)


def test_statements_end_with_semicolons_outside_of_strings() -> None:
    sentences = list(read_statements(" SELECT ';';\n-- nothing\n; UPDATE t SET a = :a ;;"))
    assert [(one.sql, one.offset) for one in sentences] == [("SELECT ';'", 1), ("UPDATE t SET a = ?", 26)]
    assert sentences[1].parameters == (("a", 43),)


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("SELECT 'a", 7, "the string that begins here is not closed"),
        ("SELECT `a", 7, "the quoted identifier that begins here is not closed"),
        ("SELECT /* a", 7, "the comment that begins here is not closed"),
        ("SELECT ?", 7, "? is a parameter without a name"),
    ],
)
def test_a_mistake_knows_its_place(text: str, offset: int, message: str) -> None:
    with pytest.raises(Mistake) as raised:
        list(read_statements(text))
    assert (raised.value.offset, raised.value.message) == (offset, message)


@pytest.mark.parametrize(
    ("text", "name", "writes"),
    [
        ("insert ignore into `shop`.`orders` values (1)", "INSERT shop.orders", True),
        ("UPDATE stock SET n = n - 1", "UPDATE stock", True),
        ("DELETE FROM cart WHERE id = :id", "DELETE cart", True),
        ("SELECT a, 'FROM x' FROM customer", "SELECT customer", False),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "WITH a", False),
        ("WITH a AS (SELECT 1) UPDATE b, a SET b.x = 1", "WITH b", True),
        ("SET @a = 1", "SET", False),
        ("/* why */ REPLACE INTO t VALUES (1)", "REPLACE t", True),
    ],
)
def test_a_statement_is_named_after_its_verb_and_its_table(text: str, name: str, writes: bool) -> None:
    sentence = only(text)
    assert (sentence.name, sentence.writes) == (name, writes)
