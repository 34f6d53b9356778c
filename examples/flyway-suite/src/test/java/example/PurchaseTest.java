package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PurchaseTest extends RolledBack {

  private long customer;
  private long product;

  @BeforeEach
  void aCustomerAndTenOfAProduct() throws SQLException {
    customer = shop.addCustomer("Ada", "France");
    product = shop.addProduct("Teapot", "Kitchen", new BigDecimal("19.90"));
    shop.stockUp(product, 10);
  }

  @ParameterizedTest
  @CsvSource({"1, 19.90", "2, 39.80", "5, 99.50", "10, 199.00"})
  void costsThePriceOfEach(int pieces, BigDecimal total) throws SQLException {
    var purchase = shop.buy(customer, product, pieces);
    assertEquals(total, shop.number("SELECT amount FROM purchase WHERE id = ?", purchase));
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 9, 10})
  void takesThePiecesOutOfStock(int pieces) throws SQLException {
    shop.buy(customer, product, pieces);
    assertEquals(new BigDecimal(10 - pieces).setScale(2), shop.inStock(product));
  }

  @Test
  void ofMoreThanThereIsLeavesNothing() throws SQLException {
    assertThrows(IllegalArgumentException.class, () -> shop.buy(customer, product, 11));
    assertEquals(0, shop.number("SELECT COUNT(*) FROM purchase").intValue());
    assertEquals(new BigDecimal("10.00"), shop.inStock(product));
  }

  @Test
  void theLatestPriceHolds() throws SQLException {
    shop.insert("INSERT INTO price (name, product_id, amount) VALUES ('sale', ?, 9.95)", product);
    var purchase = shop.buy(customer, product, 2);
    assertEquals(new BigDecimal("19.90"), shop.number("SELECT amount FROM purchase WHERE id = ?", purchase));
  }

  @Test
  void stockAddsUp() throws SQLException {
    shop.stockUp(product, 5);
    assertEquals(new BigDecimal("15.00"), shop.inStock(product));
    assertEquals(1, shop.number("SELECT COUNT(*) FROM stock WHERE product_id = ?", product).intValue());
  }

  @Test
  void hasItsItems() throws SQLException {
    var purchase = shop.buy(customer, product, 3);
    assertEquals(
        List.of("product " + product),
        shop.texts("SELECT name FROM purchase_item WHERE purchase_id = ?", purchase));
  }

  @Test
  void isInvoicedInFull() throws SQLException {
    var purchase = shop.buy(customer, product, 2);
    assertEquals(new BigDecimal("39.80"), shop.open(shop.invoice(purchase)));
    assertEquals(List.of("invoiced"), shop.texts("SELECT status FROM purchase WHERE id = ?", purchase));
  }

  @Test
  void isPaidInParts() throws SQLException {
    var invoice = shop.invoice(shop.buy(customer, product, 2));
    shop.pay(invoice, new BigDecimal("30.00"));
    assertEquals(new BigDecimal("9.80"), shop.open(invoice));
    assertEquals(List.of("active"), shop.texts("SELECT status FROM invoice WHERE id = ?", invoice));
    shop.pay(invoice, new BigDecimal("9.80"));
    assertEquals(List.of("paid"), shop.texts("SELECT status FROM invoice WHERE id = ?", invoice));
  }

  @Test
  void withAnInvoiceIsNotDeleted() throws SQLException {
    var purchase = shop.buy(customer, product, 1);
    shop.invoice(purchase);
    assertThrows(
        SQLIntegrityConstraintViolationException.class,
        () -> shop.update("DELETE FROM purchase WHERE id = ?", purchase));
  }

  @Test
  void isRefundedToItsPayment() throws SQLException {
    var invoice = shop.invoice(shop.buy(customer, product, 1));
    shop.pay(invoice, new BigDecimal("19.90"));
    var refunded =
        shop.update(
            "INSERT INTO refund (name, payment_id, amount) SELECT 'returned', id, amount FROM payment"
                + " WHERE invoice_id = ?",
            invoice);
    assertEquals(1, refunded);
    assertEquals(new BigDecimal("19.90"), shop.number("SELECT SUM(amount) FROM refund"));
  }

  @Test
  void manyInOneTransaction() throws SQLException {
    for (int number = 0; number < 10; number++) {
      shop.buy(customer, product, 1);
    }
    assertEquals(new BigDecimal("199.00"), shop.number("SELECT SUM(amount) FROM purchase"));
    assertEquals(0, shop.inStock(product).signum());
  }
}
