package example;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.math.BigDecimal;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests that commit and run at the same time, each on a database of its own. */
@ExtendWith(FlushlabExtension.class)
@Execution(ExecutionMode.CONCURRENT)
class SideBySideTest {

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7, 8})
  void theFirstCustomerHasNumberOneEachTime(int pieces, @Own DataSource database) throws SQLException {
    try (var connection = database.getConnection()) {
      var shop = new Shop(connection);
      var customer = shop.addCustomer("Ada", "France");
      var product = shop.addProduct("Teapot", "Kitchen", new BigDecimal("19.90"));
      shop.stockUp(product, 10);
      shop.buy(customer, product, pieces);
      assertEquals(1, customer);
      assertEquals(1, shop.number("SELECT COUNT(*) FROM purchase").intValue());
    }
  }

  @Test
  void aTableIsGoneAfterItsTest(@Own DataSource database) throws SQLException {
    try (var connection = database.getConnection(); var statement = connection.createStatement()) {
      statement.execute("CREATE TABLE scratch (id INT)");
    }
  }

  @Test
  void andSoIsWhatWasDropped(@Own DataSource database) throws SQLException {
    try (var connection = database.getConnection(); var statement = connection.createStatement()) {
      statement.execute("DROP TABLE loyalty_entry");
    }
  }
}
