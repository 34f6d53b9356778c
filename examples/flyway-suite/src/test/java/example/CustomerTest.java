package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.util.List;
import org.junit.jupiter.api.Test;

class CustomerTest extends RolledBack {

  @Test
  void aNewOneIsActive() throws SQLException {
    var id = shop.addCustomer("Ada", "France");
    assertEquals(List.of("active"), shop.texts("SELECT status FROM customer WHERE id = ?", id));
  }

  @Test
  void livesInACountryThatThereIs() {
    assertThrows(IllegalArgumentException.class, () -> shop.addCustomer("Ada", "Atlantis"));
  }

  @Test
  void keepsANameInAnyScript() throws SQLException {
    var id = shop.addCustomer("Ærø 東京 🦊", "Japan");
    assertEquals(List.of("Ærø 東京 🦊"), shop.texts("SELECT name FROM customer WHERE id = ?", id));
  }

  @Test
  void twoMayHaveTheSameName() throws SQLException {
    var first = shop.addCustomer("Ada", "France");
    assertTrue(shop.addCustomer("Ada", "France") > first);
  }

  @Test
  void cannotBeWithoutAName() {
    assertThrows(SQLException.class, () -> shop.insert("INSERT INTO customer (name) VALUES (?)", (Object) null));
  }

  @Test
  void withAnAddressIsNotDeleted() throws SQLException {
    var id = shop.addCustomer("Ada", "France");
    shop.insert("INSERT INTO address (name, customer_id) VALUES ('home', ?)", id);
    assertThrows(
        SQLIntegrityConstraintViolationException.class,
        () -> shop.update("DELETE FROM customer WHERE id = ?", id));
  }

  @Test
  void withoutAnythingIsDeleted() throws SQLException {
    var id = shop.addCustomer("Ada", "France");
    assertEquals(1, shop.update("DELETE FROM customer WHERE id = ?", id));
  }

  @Test
  void thereAreNoneThatAnotherTestLeft() throws SQLException {
    assertEquals(0, shop.number("SELECT COUNT(*) FROM customer").intValue());
  }

  @Test
  void isFoundByCountry() throws SQLException {
    shop.addCustomer("Ada", "France");
    shop.addCustomer("Bo", "Sweden");
    shop.addCustomer("Cy", "Sweden");
    var swedes =
        shop.texts(
            "SELECT c.name FROM customer c JOIN country l ON l.id = c.country_id"
                + " WHERE l.name = 'Sweden' ORDER BY c.name");
    assertEquals(List.of("Bo", "Cy"), swedes);
  }

  @Test
  void aSavepointTakesBackThePart() throws SQLException {
    shop.addCustomer("Ada", "France");
    var here = connection.setSavepoint();
    shop.addCustomer("Bo", "Sweden");
    connection.rollback(here);
    assertEquals(List.of("Ada"), shop.texts("SELECT name FROM customer"));
  }
}
