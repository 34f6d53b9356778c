package example;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.util.Map;

/** The database that the environment names: flushlab's variables first, then Spring's. */
public record Database(String url, String user, String password) {

  public static Database fromEnvironment() {
    return from(System.getenv());
  }

  static Database from(Map<String, String> environment) {
    return new Database(
        first(environment, "FLUSHLAB_JDBC_URL", "SPRING_DATASOURCE_URL"),
        first(environment, "FLUSHLAB_USER", "SPRING_DATASOURCE_USERNAME"),
        first(environment, "FLUSHLAB_PASSWORD", "SPRING_DATASOURCE_PASSWORD"));
  }

  /** A pool of few connections; the URL decides which driver. */
  public HikariDataSource pool() {
    var config = new HikariConfig();
    config.setJdbcUrl(url);
    config.setUsername(user);
    config.setPassword(password);
    config.setMaximumPoolSize(4);
    config.setMinimumIdle(1);
    return new HikariDataSource(config);
  }

  private static String first(Map<String, String> environment, String... names) {
    for (var name : names) {
      if (environment.containsKey(name)) {
        return environment.get(name);
      }
    }
    throw new IllegalStateException("the environment has none of " + String.join(", ", names));
  }
}
