package example;

import com.zaxxer.hikari.HikariDataSource;
import example.OwnDatabases.Lease;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import javax.sql.DataSource;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;
import org.junit.platform.commons.support.AnnotationSupport;

/**
 * Gives tests the database that the environment names, migrated once per run, and a pristine one
 * where a test asks for it with {@link Pristine}, or one of its own with {@link Own}.
 *
 * <p>Under {@code flushlab test} with a template, migrating only validates. With {@code
 * SUITE_CLEAN=1} the suite cleans first, as many do: that throws the template away.
 */
public final class FlushlabExtension implements BeforeEachCallback, ParameterResolver {

  private static final Namespace SPACE = Namespace.create(FlushlabExtension.class);

  @Override
  public void beforeEach(ExtensionContext context) throws Exception {
    if (AnnotationSupport.isAnnotated(context.getElement(), Pristine.class)) {
      reset();
      pool(context).getHikariPoolMXBean().softEvictConnections(); // they lead to the server that was
    }
  }

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    return parameter.getParameter().getType() == DataSource.class;
  }

  @Override
  public DataSource resolveParameter(ParameterContext parameter, ExtensionContext context) {
    return parameter.isAnnotated(Own.class) ? own(context) : pool(context);
  }

  /** Taken from flushlab's pool for one test. */
  private static DataSource own(ExtensionContext context) {
    var databases =
        context.getRoot().getStore(SPACE).getOrComputeIfAbsent(OwnDatabases.class);
    return context
        .getStore(SPACE)
        .getOrComputeIfAbsent(Lease.class, type -> take(databases), Lease.class)
        .database();
  }

  private static Lease take(OwnDatabases databases) {
    try {
      return databases.take();
    } catch (IOException | InterruptedException problem) {
      throw new IllegalStateException(problem);
    }
  }

  private static HikariDataSource pool(ExtensionContext context) {
    return context
        .getRoot()
        .getStore(SPACE)
        .getOrComputeIfAbsent(Pool.class, type -> Pool.open(), Pool.class)
        .connections;
  }

  /** Asks flushlab for the database as the template has it; without flushlab, skips the test. */
  private static void reset() throws IOException, InterruptedException {
    var url = System.getenv("FLUSHLAB_RESET_URL");
    Assumptions.assumeTrue(url != null, "a pristine database takes flushlab test");
    var request =
        HttpRequest.newBuilder(URI.create(url))
            .timeout(Duration.ofSeconds(60))
            .POST(BodyPublishers.noBody())
            .build();
    var answer = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
    if (answer.statusCode() != 200) {
      throw new IllegalStateException("the database was not reset: " + answer.body());
    }
  }

  /** Closed by JUnit when all tests are done. */
  private record Pool(HikariDataSource connections) implements CloseableResource {

    static Pool open() {
      var pool = Database.fromEnvironment().pool();
      if ("1".equals(System.getenv("SUITE_CLEAN"))) {
        Migrate.cleanAndMigrate(pool);
      } else {
        Migrate.migrate(pool);
      }
      return new Pool(pool);
    }

    @Override
    public void close() {
      connections.close();
    }
  }
}
