package example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.sql.SQLException;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The rows that migrations brought, and that no test may leave changed. */
class SeedsTest extends RolledBack {

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "currency | CHF EUR GBP JPY USD",
        "country | Austria Belgium Denmark France Italy Japan Spain Sweden",
        "category | Books Games Garden Kitchen Music Office",
        "carrier | Falcon Heron Swift",
        "department | Accounting Purchasing Sales Support",
        "role | admin clerk guest",
        "tax_rate | reduced standard zero",
        "message_template | dispatched refunded reminder welcome",
        "tag | fragile gift new sale",
        "campaign | spring summer"
      })
  void areThereAndOnlyThey(String table, String names) throws SQLException {
    var found = shop.texts("SELECT name FROM " + table + " ORDER BY name");
    assertEquals(List.of(names.split(" ")), found);
    shop.update("DELETE FROM " + table + " WHERE name = ?", found.get(0)); // rolled back: the others need it
    assertEquals(found.size() - 1, shop.texts("SELECT name FROM " + table).size());
  }
}
