package example;

import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.extension.ExtendWith;

/** Tests that open a transaction each and roll it back. */
@ExtendWith(FlushlabExtension.class)
abstract class RolledBack {

  protected Connection connection;
  protected Shop shop;

  @BeforeEach
  void begin(DataSource database) throws SQLException {
    connection = database.getConnection();
    connection.setAutoCommit(false);
    shop = new Shop(connection);
  }

  @AfterEach
  void rollBack() throws SQLException {
    connection.rollback();
    connection.close();
  }
}
