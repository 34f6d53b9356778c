package example;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import javax.sql.DataSource;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;

/**
 * Databases that tests take from flushlab's pool and give back. The same servers come again, so each keeps its
 * connections.
 */
final class OwnDatabases implements CloseableResource {

  private final HttpClient http = HttpClient.newHttpClient();
  private final Map<String, HikariDataSource> connections = new ConcurrentHashMap<>();

  /** A database until it is closed, which JUnit does after the test. */
  record Lease(OwnDatabases from, DataSource database, String url) implements CloseableResource {

    @Override
    public void close() throws IOException, InterruptedException {
      from.ask("DELETE", url + "?connections=keep");
    }
  }

  Lease take() throws IOException, InterruptedException {
    var pool = System.getenv("FLUSHLAB_POOL_URL");
    Assumptions.assumeTrue(pool != null, "a database of one's own takes flushlab test");
    var answer = ask("POST", pool + "/databases");
    var database = connections.computeIfAbsent(field(answer, "jdbc_url"), OwnDatabases::connect);
    return new Lease(this, database, field(answer, "lease_url"));
  }

  @Override
  public void close() {
    connections.values().forEach(HikariDataSource::close);
  }

  private static HikariDataSource connect(String url) {
    var config = new HikariConfig();
    config.setJdbcUrl(url); // with the account
    config.setMaximumPoolSize(4);
    config.setMinimumIdle(1);
    return new HikariDataSource(config);
  }

  private String ask(String method, String url) throws IOException, InterruptedException {
    var request = HttpRequest.newBuilder(URI.create(url)).method(method, HttpRequest.BodyPublishers.noBody());
    var answer = http.send(request.build(), BodyHandlers.ofString());
    if (answer.statusCode() != 200) {
      throw new IllegalStateException(method + " failed: " + answer.body());
    }
    return answer.body();
  }

  private static String field(String json, String name) {
    var found = Pattern.compile('"' + name + "\": \"([^\"]*)\"").matcher(json);
    if (!found.find()) {
      throw new IllegalStateException("there is no " + name + " in the answer");
    }
    return found.group(1);
  }
}
