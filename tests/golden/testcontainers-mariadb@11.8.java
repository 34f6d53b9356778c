// A throwaway mariadb:11.8 in memory, by flushlab test --print-testcontainers.
// mariadb:11.8 is the newest release of its series; SELECT VERSION() prints it. To pin a release, write all numbers: --server mariadb@11.8.N
// Needs org.testcontainers:mariadb. Start it once for all tests: a static field, not one per class.
static final MariaDBContainer<?> DATABASE =
    new MariaDBContainer<>("mariadb:11.8")
        .withDatabaseName("app")
        .withTmpFs(java.util.Map.of("/var/lib/mysql", "rw")) // no sync costs anything in memory
        .withCommand(
            "--innodb-flush-log-at-trx-commit=0", // commits do not write the redo log
            "--innodb-doublewrite=OFF", // pages are written once
            "--performance-schema=OFF", // its memory is allocated at every start
            "--innodb-buffer-pool-load-at-startup=OFF", // nothing to load
            "--innodb-buffer-pool-dump-at-shutdown=OFF", // nothing to keep
            "--innodb-log-file-size=16M"); // less to copy: a data directory of MariaDB takes 45 instead of 125 MiB

static {
  DATABASE.start(); // ends with the JVM
}
