package example;

import javax.sql.DataSource;
import org.flywaydb.core.Flyway;

/**
 * Brings a database up to date. As a program it takes the database that the environment names: the
 * command for {@code flushlab test --prepare}, without Maven's start.
 */
public final class Migrate {

  private Migrate() {}

  public static void main(String[] arguments) {
    try (var pool = Database.fromEnvironment().pool()) {
      System.out.println(migrate(pool) + " migrations applied");
    }
  }

  /** Applies what is missing and returns how many that were; on a restored template: none. */
  public static int migrate(DataSource database) {
    return flyway(database).migrate().migrationsExecuted;
  }

  /** Drops everything and begins anew, as many suites do at every start. */
  public static int cleanAndMigrate(DataSource database) {
    var flyway = flyway(database);
    flyway.clean();
    return flyway.migrate().migrationsExecuted;
  }

  private static Flyway flyway(DataSource database) {
    return Flyway.configure().dataSource(database).cleanDisabled(false).load();
  }
}
