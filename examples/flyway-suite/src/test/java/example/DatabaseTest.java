package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Test;

class DatabaseTest {

  @Test
  void springsVariablesDoAsWell() {
    var found =
        Database.from(
            Map.of(
                "SPRING_DATASOURCE_URL", "jdbc:mariadb://127.0.0.1:3306/app",
                "SPRING_DATASOURCE_USERNAME", "u",
                "SPRING_DATASOURCE_PASSWORD", "p"));
    assertEquals(new Database("jdbc:mariadb://127.0.0.1:3306/app", "u", "p"), found);
  }

  @Test
  void whatIsMissingIsNamed() {
    var error = assertThrows(IllegalStateException.class, () -> Database.from(Map.of()));
    assertTrue(error.getMessage().contains("FLUSHLAB_JDBC_URL"), error.getMessage());
  }
}
