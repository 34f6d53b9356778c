// A throwaway mysql:8.0 in memory, by flushlab test --print-testcontainers.
// mysql:8.0 is the newest release of its series; SELECT VERSION() prints it. To pin a release, write all numbers: --server mysql@8.0.N
// Needs org.testcontainers:mysql. Start it once for all tests: a static field, not one per class.
static final MySQLContainer<?> DATABASE =
    new MySQLContainer<>("mysql:8.0")
        .withDatabaseName("app")
        .withTmpFs(java.util.Map.of("/var/lib/mysql", "rw")) // no sync costs anything in memory
        .withCommand(
            "--skip-log-bin", // a test server has no replicas
            "--innodb-flush-log-at-trx-commit=0", // commits do not write the redo log
            "--innodb-doublewrite=OFF", // pages are written once
            "--performance-schema=OFF", // its memory is allocated at every start
            "--innodb-buffer-pool-load-at-startup=OFF", // nothing to load
            "--innodb-buffer-pool-dump-at-shutdown=OFF", // nothing to keep
            "--innodb-redo-log-capacity=32M"); // less to copy

static {
  DATABASE.start(); // ends with the JVM
}
