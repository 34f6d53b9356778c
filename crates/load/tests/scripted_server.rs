//! The engine against a scripted server on a unix socket: raw packets, no real server.

mod server;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flushlab_load::result::{LoadProgress, LoadResult};
use flushlab_load::spec::LoadSpec;
use flushlab_load::{
    prepare_tables, run_script, script, Cancellation, Error, ErrorKind, LoadRun, ScriptSpec,
};
use server::{Conversation, Socket, EOF, OK};

/// Two rows, of which one was there already.
const OK_THREE_AFFECTED: &[u8] = b"\x00\x03\x00\x02\x00\x00\x00";
const SYNTAX_ERROR: &[u8] = b"\xff\x28\x04#42000You have an error in your SQL syntax";
const DEADLOCK: &[u8] = b"\xff\xbd\x04#40001Deadlock found when trying to get lock";
const LOCK_WAIT_TIMEOUT: &[u8] = b"\xff\xb5\x04#HY000Lock wait timeout exceeded";
const TABLE_FULL: &[u8] = b"\xff\x8a\x04#HY000The table is full";
const TOO_BIG: &[u8] = b"\xff\x81\x04#08S01too big";
/// Bytes that need two packets.
const LONG: usize = 20_000_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// What the server does with the nth execution of a connection.
#[derive(Clone, Copy)]
enum Act {
    Answer(&'static [u8]),
    AnswerLate(Duration, &'static [u8]),
    Close,
    Hang,
}

/// How the server greets.
#[derive(Clone, Copy, PartialEq)]
enum Greeting {
    Usual,
    Raw(&'static [u8]),
    RefusePassword,
}

struct Script {
    greeting: Greeting,
    max_id: &'static str,
    c_type: &'static str,
    knows_aliases: bool,
    execution: fn(u64) -> Act,
    commit: fn(u64) -> &'static [u8],
    /// Connections that are greeted; later ones get no word.
    greeted: u64,
}

const USUAL: Script = Script {
    greeting: Greeting::Usual,
    max_id: "100",
    c_type: "char(120)",
    knows_aliases: true,
    execution: |_| Act::Answer(OK),
    commit: |_| OK,
    greeted: u64::MAX,
};

/// A scripted server.
struct Server {
    socket: Socket,
    seen: Arc<Seen>,
}

/// What clients did.
#[derive(Default)]
struct Seen {
    inserted_rows: AtomicU64,
    executions: AtomicU64,
    /// The statements that came as text or for preparation, of all connections.
    statements: Mutex<Vec<String>>,
}

impl Server {
    fn start(script: Script) -> Self {
        let seen = Arc::new(Seen::default());
        let noted = seen.clone();
        let socket = Socket::listen(
            || (),
            move |number, client| match number > script.greeted {
                true => loop {
                    std::thread::park(); // its client gets no word
                },
                false => converse(client, &script, &noted),
            },
        );
        Self { socket, seen }
    }

    /// One that answers executions so, and all else as usual.
    fn executing(execution: fn(u64) -> Act) -> Self {
        Self::start(Script { execution, ..USUAL })
    }

    /// Waits until clients have executed so many prepared statements, answered or not.
    fn wait_for_executions(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.seen.executions.load(Ordering::Relaxed) < count {
            assert!(Instant::now() < deadline, "waited in vain");
            std::thread::yield_now();
        }
    }

    /// How often a statement beginning like this was sent.
    fn heard(&self, beginning: &str) -> usize {
        let said = self.seen.statements.lock().unwrap();
        said.iter()
            .filter(|statement| statement.starts_with(beginning))
            .count()
    }

    fn spec(&self, change: impl Fn(&mut serde_json::Value)) -> LoadSpec {
        let mut value = serde_json::json!({
            "workload": "oltp_update_non_index",
            "endpoint": {"user": "u", "password": "hunter2", "socket": self.socket.path, "host": null, "port": null},
            "transport": "socket", "database": "sbtest", "threads": 2, "tables": 1, "table_size": 100,
            "rand_type": "special", "seed": 1, "ignored_errors": [1213],
        });
        change(&mut value);
        LoadSpec::from_json(&serde_json::to_vec(&value).unwrap()).unwrap()
    }

    fn connect(&self) -> Result<LoadRun, Error> {
        LoadRun::connect(&self.spec(|_| ()), Arc::new(Cancellation::new()))
    }

    /// One connection, statements of two rows.
    fn upsert(&self, commit: serde_json::Value) -> LoadRun {
        let spec = self.spec(|spec| {
            spec["workload"] = "upsert".into();
            spec["threads"] = 1.into();
            spec["upsert"] = serde_json::json!({"rows": 2, "key": "primary", "hit_ratio": 0.5});
            for (name, value) in commit.as_object().unwrap() {
                spec["upsert"][name] = value.clone();
            }
        });
        let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
        run.start().unwrap();
        run
    }

    fn run(&self, script: &str, limit_s: f64) -> Result<LoadResult, Error> {
        let spec = serde_json::json!({
            "endpoint": {"user": "u", "password": "hunter2", "socket": self.socket.path, "host": null, "port": null},
            "transport": "socket", "database": "sbtest", "limit_s": limit_s,
        });
        let spec = ScriptSpec::from_json(&serde_json::to_vec(&spec).unwrap()).unwrap();
        run_script(
            &spec,
            &script::split(script.as_bytes()).unwrap(),
            &Cancellation::new(),
        )
    }

    fn started(&self) -> LoadRun {
        let mut run = self.connect().unwrap();
        run.start().unwrap();
        run
    }
}

fn converse(mut client: Conversation, script: &Script, seen: &Seen) -> std::io::Result<()> {
    if let Greeting::Raw(raw) = script.greeting {
        return client.stream.write_all(raw);
    }
    client.greet()?;
    if script.greeting == Greeting::RefusePassword {
        return client
            .send(&[b"\xff\x15\x04#28000Access denied for user 'u'@'localhost' (using password: YES)"]);
    }
    client.send(&[OK])?;
    let (mut executions, mut commits) = (0, 0);
    loop {
        let command = client.command()?;
        if let [0x03 | 0x16, sql @ ..] = &command[..] {
            seen.statements
                .lock()
                .unwrap()
                .push(String::from_utf8_lossy(sql).into_owned());
        }
        match command.split_first() {
            Some((0x03, sql)) if sql.starts_with(b"SHOW COLUMNS FROM upsert") => client.send_rows(&[
                ["k", "bigint", "NO", "PRI"],
                ["c", script.c_type, "NO", ""],
                ["pad", "char(60)", "NO", ""],
            ])?,
            Some((0x03, sql)) if sql.starts_with(b"SHOW COLUMNS") => client.send_rows(&[
                ["id", "int(11)", "NO", "PRI"],
                ["k", "int(11)", "NO", "MUL"],
                ["c", script.c_type, "NO", ""],
                ["pad", "char(60)", "NO", ""],
            ])?,
            Some((0x03, sql)) if sql.starts_with(b"SELECT MAX(") => client.send_rows(&[[script.max_id]])?,
            Some((0x03, sql)) if sql.starts_with(b"SELECT @@max") => client.send_rows(&[["16777216"]])?,
            Some((0x03, sql)) if sql.starts_with(b"INSERT") => {
                assert!(sql.len() <= 512 << 10, "a batch of {} bytes", sql.len());
                let rows = sql.iter().filter(|&&byte| byte == b'(').count() - 1;
                seen.inserted_rows.fetch_add(rows as u64, Ordering::Relaxed);
                client.send(&[OK])?;
            }
            Some((0x03, b"COMMIT")) => {
                commits += 1;
                client.send(&[(script.commit)(commits)])?;
            }
            Some((0x03, b"LONG ROW")) => {
                let long = "x".repeat(LONG);
                client.send_rows(&[[long.as_str()]])?;
            }
            Some((0x03, b"HANG")) => {
                client.receive()?;
            }
            Some((0x03, b"FAIL")) => client.send(&[DEADLOCK])?,
            Some((0x03, _)) => client.send(&[OK])?,
            Some((0x16, sql)) => {
                let params = sql.iter().filter(|&&byte| byte == b'?').count();
                if !script.knows_aliases && String::from_utf8_lossy(sql).contains(" AS ") {
                    client.send(&[SYNTAX_ERROR])?;
                    continue;
                }
                let head = [0, 1, 0, 0, 0, 0, 0, params as u8, 0, 0, 0, 0];
                let mut payloads: Vec<&[u8]> = vec![&head];
                payloads.extend(std::iter::repeat_n(&b"param"[..], params));
                payloads.extend((params > 0).then_some(EOF));
                client.send(&payloads)?;
            }
            Some((0x17, _)) => {
                executions += 1;
                seen.executions.fetch_add(1, Ordering::Relaxed);
                match (script.execution)(executions) {
                    Act::Answer(payload) => client.send(&[payload])?,
                    Act::AnswerLate(after, payload) => {
                        std::thread::sleep(after);
                        client.send(&[payload])?;
                    }
                    Act::Close => return Ok(()),
                    Act::Hang => {
                        client.receive()?;
                    }
                }
            }
            _ => return Ok(()),
        }
    }
}

fn wait_for(run: &LoadRun, condition: impl Fn(&LoadProgress) -> bool) -> LoadProgress {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let progress = run.progress().unwrap();
        if condition(&progress) {
            return progress;
        }
        assert!(Instant::now() < deadline, "waited in vain: {progress:?}");
        std::thread::yield_now();
    }
}

fn refusal(script: Script) -> Error {
    Server::start(script)
        .connect()
        .err()
        .expect("the connection had to be refused")
}

#[test]
fn a_window_counts_what_ended_inside_it() {
    let server = Server::start(USUAL);
    let mut run = server.started();
    let before = wait_for(&run, |progress| progress.events > 100);
    run.open_window().unwrap();
    wait_for(&run, |progress| progress.events > before.events + 1000);
    let result = run.close_window().unwrap();
    run.stop();
    let after = run.progress().unwrap();
    assert!(result.events > 0 && result.events < after.events);
    let latency = result.latency_us.unwrap();
    assert!(latency.p50 <= latency.p95 && latency.p999 <= latency.max);
    let cpu = result.client_cpu_us_per_event.unwrap();
    assert!(
        cpu > 0.0 && cpu < 1e6 * 2.0 * result.seconds / result.events as f64,
        "{cpu}"
    );
    let client = result.client.expect("Linux has /proc");
    if let (Some(user), Some(system)) = (client.user_us_per_event, client.system_us_per_event) {
        assert!(user >= 0.0 && system >= 0.0 && (user + system - cpu).abs() <= 1e-9 * cpu);
    }
    // What was ready when the window opened may be counted after it: an answer for each connection at most.
    let answers = client.waits as f64 * client.answers_per_wait.unwrap();
    assert!(
        answers + 2.0 >= result.events as f64,
        "{client:?} for {} events",
        result.events
    );
    assert!((result.throughput - result.events as f64 / result.seconds).abs() < 1e-6);
    assert_eq!(after.failed, None);
}

#[test]
fn an_ignored_error_is_counted_and_the_event_is_retried() {
    let server = Server::executing(|number| Act::Answer(if number % 10 == 0 { DEADLOCK } else { OK }));
    let mut run = server.started();
    run.open_window().unwrap();
    wait_for(&run, |progress| progress.events > 500);
    let result = run.close_window().unwrap();
    let [error] = &result.errors[..] else {
        panic!("one kind of error was due: {:?}", result.errors)
    };
    assert_eq!((error.errno, error.sqlstate.as_str()), (1213, "40001"));
    assert!(error.message.starts_with("Deadlock found"));
    assert!(error.count >= result.events / 9 - 2 && error.count <= result.events / 9 + 2);
}

#[test]
fn an_error_that_is_not_ignored_ends_the_load_with_its_reason() {
    let server = Server::executing(|number| Act::Answer(if number < 50 { OK } else { TABLE_FULL }));
    let mut run = server.started();
    let progress = wait_for(&run, |progress| progress.failed.is_some());
    assert!(progress.failed.unwrap().contains("The table is full (error 1162"));
    let error = run.open_window().unwrap_err();
    assert_eq!((error.kind, error.errno), (ErrorKind::Server, Some(1162)));
}

#[test]
fn a_load_that_a_known_error_ends_tells_the_way_out() {
    let server = Server::executing(|number| Act::Answer(if number < 50 { OK } else { TOO_BIG }));
    let progress = wait_for(&server.started(), |progress| progress.failed.is_some());
    assert!(progress.hint.unwrap().starts_with("raise max_allowed_packet"));
}

#[test]
fn a_server_that_goes_away_ends_the_load_and_voids_the_window() {
    let server = Server::executing(|number| if number < 500 { Act::Answer(OK) } else { Act::Close });
    let mut run = server.connect().unwrap();
    run.start().unwrap();
    let opened = run.open_window();
    let progress = wait_for(&run, |progress| progress.failed.is_some());
    assert!(progress.failed.unwrap().contains("closed the connection"));
    assert_eq!(run.close_window().unwrap_err().kind, ErrorKind::Server);
    assert!(opened.is_ok() || opened.unwrap_err().kind == ErrorKind::Server);
}

#[test]
fn garbage_ends_the_load_as_a_protocol_error() {
    let server = Server::executing(|_| Act::Answer(b"\xfb/etc/passwd"));
    let mut run = server.started();
    wait_for(&run, |progress| progress.failed.is_some());
    assert_eq!(run.open_window().unwrap_err().kind, ErrorKind::Protocol);
}

#[test]
fn a_hung_server_does_not_keep_a_load_from_stopping() {
    let server = Server::executing(|number| if number < 5 { Act::Answer(OK) } else { Act::Hang });
    let mut run = server.started();
    wait_for(&run, |progress| progress.events == 8); // both connections hang in their fifth
    let begun = Instant::now();
    run.stop();
    run.stop();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(run.progress().unwrap().failed, None);
    assert_eq!(run.start().unwrap_err().kind, ErrorKind::Usage);
}

#[test]
fn a_window_needs_a_running_load() {
    let server = Server::start(USUAL);
    let mut run = server.connect().unwrap();
    assert_eq!(run.open_window().unwrap_err().kind, ErrorKind::Usage);
    assert_eq!(run.progress().unwrap_err().kind, ErrorKind::Usage);
    run.start().unwrap();
    assert_eq!(run.close_window().unwrap_err().message, "no window is open");
    run.stop();
    assert_eq!(run.open_window().unwrap_err().message, "the load is stopped");
}

/// A load in a pause has nothing on the server, and sends nothing while another load runs.
fn check_pause(threads: u32, rate: u32) {
    let server = Server::start(USUAL);
    let spec = server.spec(|spec| {
        spec["workload"] = "upsert".into();
        spec["threads"] = threads.into();
        spec["rate"] = rate.into();
        spec["upsert"] = serde_json::json!(
            {"rows": 1, "key": "primary", "hit_ratio": 0.5, "commit_seconds": 3600});
    });
    let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
    run.start().unwrap();
    for pause in 1..=3 {
        let before = run.progress().unwrap().events;
        wait_for(&run, |progress| progress.events >= before + 50);
        run.open_window().unwrap();
        assert_eq!(run.pause().unwrap_err().kind, ErrorKind::Usage);
        run.close_window().unwrap();
        run.pause().unwrap();
        run.pause().unwrap();
        let events = run.progress().unwrap().events;
        assert_eq!(server.seen.executions.load(Ordering::Relaxed), events);
        assert!(server.heard("COMMIT") >= pause, "what was open is committed");
        assert_eq!(run.open_window().unwrap_err().kind, ErrorKind::Usage);
        let other = Server::start(USUAL);
        let mut meanwhile = other.started();
        wait_for(&meanwhile, |progress| progress.events > 2000);
        meanwhile.stop();
        assert_eq!(server.seen.executions.load(Ordering::Relaxed), events);
        run.resume().unwrap();
    }
    run.stop();
}

#[test]
fn a_paused_load_has_nothing_on_the_server_and_goes_on_where_it_was() {
    for (threads, rate) in [(1, 0), (3, 0), (1, 2000), (3, 2000)] {
        check_pause(threads, rate);
    }
}

#[test]
fn a_pause_ends_when_the_load_fails_or_stops() {
    let server = Server::executing(|number| if number > 20 { Act::Close } else { Act::Answer(OK) });
    let mut run = server.started();
    wait_for(&run, |progress| progress.failed.is_some());
    assert_eq!(run.pause().unwrap_err().kind, ErrorKind::Server);
    run.stop();
    let server = Server::start(USUAL);
    let mut run = server.started();
    run.pause().unwrap();
    run.stop();
    assert_eq!(run.resume().unwrap_err().message, "the load is stopped");
}

#[test]
fn a_rate_is_kept_and_latency_counts_from_the_intended_start() {
    let server = Server::start(USUAL);
    let spec = server.spec(|spec| spec["rate"] = 500.into());
    let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
    run.start().unwrap();
    let progress = wait_for(&run, |progress| progress.events >= 300);
    run.stop();
    assert!(
        progress.elapsed_s > 0.55,
        "300 events at 500/s take 0.6 s, not {}",
        progress.elapsed_s
    );
    // One that waits for 0.5 s behind another is charged that, although its own answer comes at once.
    for threads in [1, 2] {
        let server = Server::executing(|number| match number {
            1 => Act::AnswerLate(Duration::from_millis(500), OK),
            _ => Act::Answer(OK),
        });
        let spec = server.spec(|spec| {
            spec["threads"] = threads.into();
            spec["rate"] = 1000.into();
        });
        let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
        run.start().unwrap();
        wait_for(&run, |progress| progress.events >= 400);
        // They were due evenly over these 0.5 s; more of them add to the sum, and so does a slow machine.
        let seen = run.seen().unwrap();
        assert!(
            seen.latency_sum_s > 80.0,
            "{} events took {} s",
            seen.events,
            seen.latency_sum_s
        );
    }
}

#[test]
fn an_overdue_event_is_charged_the_time_it_waited() {
    // A rate far above what the server can do: what is due waits longer the longer the load runs.
    let server = Server::start(USUAL);
    let spec = server.spec(|spec| spec["rate"] = 10_000_000.into());
    let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
    run.start().unwrap();
    wait_for(&run, |progress| progress.elapsed_s > 0.3);
    run.open_window().unwrap();
    let before = run.progress().unwrap().events;
    wait_for(&run, |progress| progress.events > before + 100);
    let latency = run.close_window().unwrap().latency_us.unwrap();
    assert!(
        latency.p50 > 200_000,
        "events due 0.3 s ago took {} us",
        latency.p50
    );
}

#[test]
fn an_event_that_is_retried_counts_from_its_intended_start() {
    const WAIT: Duration = Duration::from_millis(300);
    for threads in [1, 2] {
        for refusal in [LOCK_WAIT_TIMEOUT, DEADLOCK] {
            let server = Server::executing(if refusal == DEADLOCK {
                |number| match number {
                    1 => Act::AnswerLate(WAIT, DEADLOCK),
                    _ => Act::Answer(OK),
                }
            } else {
                |number| match number {
                    1 => Act::AnswerLate(WAIT, LOCK_WAIT_TIMEOUT),
                    _ => Act::Answer(OK),
                }
            });
            let spec = server.spec(|spec| {
                spec["threads"] = threads.into();
                spec["rate"] = 0.01.into(); // the second event is due after 100 s
                spec["ignored_errors"] = serde_json::json!([1205, 1213]);
            });
            let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
            run.start().unwrap();
            run.open_window().unwrap();
            wait_for(&run, |progress| progress.events == 1);
            let result = run.close_window().unwrap();
            let latency = result.latency_us.unwrap();
            assert_eq!((result.events, result.errors[0].count), (1, 1));
            assert!(
                latency.max >= WAIT.as_micros() as u64 / 1000 * 999,
                "an event that was due {WAIT:?} before its end took {} us",
                latency.max
            );
        }
    }
}

#[test]
fn a_retry_in_a_closed_loop_is_a_new_event() {
    // Long enough for a slow machine to open the window meanwhile.
    const WAIT: Duration = Duration::from_secs(2);
    let server = Server::executing(|number| match number {
        1 => Act::AnswerLate(WAIT, DEADLOCK),
        _ => Act::Answer(OK),
    });
    let mut run = server.started();
    run.open_window().unwrap();
    wait_for(&run, |progress| progress.errors == 2 && progress.events > 1000);
    let result = run.close_window().unwrap();
    let latency = result.latency_us.unwrap();
    assert!(latency.max < 2_000_000, "{}", latency.max);
    // The time that the retry leaves out is not lost.
    let failed = result.failed.unwrap();
    assert_eq!(failed.count, 2);
    assert!(failed.latency_us.p50 >= 1_998_000, "{failed:?}");
}

#[test]
fn a_window_without_errors_has_no_failed_attempts() {
    let server = Server::start(USUAL);
    let mut run = server.started();
    run.open_window().unwrap();
    wait_for(&run, |progress| progress.events > 100);
    let result = run.close_window().unwrap();
    assert_eq!((result.failed, result.capped), (None, 0));
}

#[test]
fn an_attempt_that_a_lost_connection_ends_has_failed() {
    let server = Server::executing(|number| match number {
        20 => Act::Close,
        _ => Act::Answer(OK),
    });
    for threads in [1_u64, 2] {
        let spec = server.spec(|spec| {
            spec["threads"] = threads.into();
            spec["reconnect"] = true.into();
        });
        let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
        run.start().unwrap();
        run.open_window().unwrap();
        // What a connection was at when the window opened is not in it; what it loses later is.
        let before = run.progress().unwrap().errors;
        wait_for(&run, |progress| progress.errors >= before + 2 * threads);
        let result = run.close_window().unwrap();
        let failed = result.failed.unwrap();
        assert_eq!(failed.count, result.lost_connections);
        assert_eq!(
            failed.count,
            result.errors.iter().map(|error| error.count).sum::<u64>()
        );
    }
}

#[test]
fn connections_that_are_lost_together_find_another_node_together() {
    // After its eight connections the first node takes new ones but never says a word.
    const THREADS: u64 = 8;
    let dead = Server::start(Script {
        execution: |number| if number < 20 { Act::Answer(OK) } else { Act::Close },
        greeted: THREADS,
        ..USUAL
    });
    let other = Server::start(USUAL);
    let spec = dead.spec(|spec| {
        spec["threads"] = THREADS.into();
        spec["reconnect"] = true.into();
        spec["cluster_load"] = "failover".into();
        spec["peers"] = serde_json::json!([
            {"user": "u", "password": "hunter2", "socket": other.socket.path, "host": null, "port": null}
        ]);
    });
    let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
    run.start().unwrap();
    // One after the other, at ten seconds each, they would need 80 s.
    wait_for(&run, |_| other.heard("UPDATE") == THREADS as usize);
    run.stop();
    assert_eq!(run.progress().unwrap().failed, None);
}

#[test]
fn an_event_that_runs_keeps_nobody_from_the_schedule() {
    for threads in [1, 2] {
        let server = Server::executing(|_| Act::Hang);
        let spec = server.spec(|spec| {
            spec["threads"] = threads.into();
            spec["rate"] = 1000.into();
        });
        let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
        run.start().unwrap();
        server.wait_for_executions(1);
        let begun = Instant::now();
        run.open_window().unwrap();
        let result = run.close_window().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(result.events, 0);
    }
}

#[test]
fn too_many_connections_is_the_servers_own_error() {
    let error = refusal(Script {
        greeting: Greeting::Raw(b"\x17\0\0\0\xff\x10\x04Too many connections"),
        ..USUAL
    });
    assert_eq!((error.kind, error.errno), (ErrorKind::Server, Some(1040)));
    assert!(
        error.message.starts_with("connection 1 of 2: "),
        "{}",
        error.message
    );
}

#[test]
fn a_refused_password_is_never_shown() {
    let error = refusal(Script {
        greeting: Greeting::RefusePassword,
        ..USUAL
    });
    assert_eq!(error.errno, Some(1045));
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[test]
fn what_is_no_server_is_a_protocol_error() {
    let error = refusal(Script {
        greeting: Greeting::Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ..USUAL
    });
    assert!(
        matches!(error.kind, ErrorKind::Protocol | ErrorKind::Server),
        "{error:?}"
    );
    let error = refusal(Script {
        greeting: Greeting::Raw(b"\xff\xff\xff\x00"),
        ..USUAL
    });
    assert_eq!(error.kind, ErrorKind::Protocol);
}

#[test]
fn tables_that_are_too_small_or_of_another_shape_are_refused() {
    let error = refusal(Script {
        max_id: "99",
        ..USUAL
    });
    assert_eq!(error.kind, ErrorKind::Measurement);
    assert!(error.message.contains("has ids up to 99"), "{}", error.message);
    let error = refusal(Script {
        c_type: "text",
        ..USUAL
    });
    assert_eq!(
        error.message,
        "table sbtest.sbtest1 is not sysbench's: column c is text, char(120) was due"
    );
}

#[test]
fn every_row_of_every_table_is_inserted() {
    let server = Server::start(USUAL);
    let spec = server.spec(|spec| {
        spec["tables"] = 3.into();
        spec["table_size"] = 5000.into();
    });
    prepare_tables(&spec, &Cancellation::new()).unwrap();
    assert_eq!(server.seen.inserted_rows.load(Ordering::Relaxed), 15_000);
}

#[test]
fn a_cut_preparation_ends_with_an_error() {
    let server = Server::start(USUAL);
    let cancellation = Cancellation::new();
    cancellation.cancel();
    assert!(prepare_tables(&server.spec(|_| ()), &cancellation).is_err());
}

#[test]
fn no_server_is_an_error_that_names_the_address() {
    let server = Server::start(USUAL);
    let spec = server.spec(|spec| spec["endpoint"]["socket"] = "/nonexistent/socket".into());
    let error = LoadRun::connect(&spec, Arc::new(Cancellation::new()))
        .err()
        .unwrap();
    assert_eq!((error.kind, error.errno), (ErrorKind::Server, None));
    assert!(error.message.contains("/nonexistent/socket"));
}

#[test]
fn an_upsert_is_prepared_in_the_wording_that_the_server_knows() {
    for (knows_aliases, wordings, due) in [(true, 1, "pad=fresh.pad"), (false, 2, "pad=VALUES(pad)")] {
        let server = Server::start(Script {
            knows_aliases,
            ..USUAL
        });
        let run = server.upsert(serde_json::json!({}));
        wait_for(&run, |progress| progress.events > 0);
        assert_eq!(
            server.heard("INSERT INTO upsert_primary1 (k,c,pad) VALUES (?,?,?),(?,?,?)"),
            wordings
        );
        let said = server.seen.statements.lock().unwrap();
        assert!(said.iter().any(|statement| statement.ends_with(due)), "{said:?}");
    }
}

#[test]
fn rows_are_counted_and_updates_among_them_by_the_servers_own_count() {
    let server = Server::executing(|_| Act::Answer(OK_THREE_AFFECTED));
    let mut run = server.upsert(serde_json::json!({}));
    run.open_window().unwrap();
    wait_for(&run, |progress| progress.events > 500);
    let result = run.close_window().unwrap();
    let rows = result.rows.unwrap();
    assert_eq!((rows.committed, rows.updated), (2 * result.events, result.events));
    assert_eq!((rows.commits, rows.commit_latency_us), (result.events, None));
    assert!((result.throughput - rows.committed as f64 / result.seconds).abs() < 1e-6);
    assert_eq!(server.heard("SET autocommit=0") + server.heard("COMMIT"), 0);
}

#[test]
fn a_transaction_ends_with_the_statement_that_reaches_its_rows() {
    let server = Server::start(USUAL);
    let mut run = server.upsert(serde_json::json!({"commit_rows": 5}));
    run.open_window().unwrap();
    wait_for(&run, |progress| progress.events > 3000);
    run.stop();
    let events = run.progress().unwrap().events as usize;
    assert_eq!(server.heard("SET autocommit=0"), 1);
    assert!(
        server.heard("COMMIT").abs_diff(events / 3) <= 1,
        "three statements of two rows reach five: {events} statements"
    );
    assert_eq!(server.heard("BEGIN"), 0);
}

#[test]
fn a_window_that_ends_in_a_transaction_counts_its_rows_once_it_is_committed() {
    let server = Server::start(USUAL);
    let mut run = server.upsert(serde_json::json!({"commit_seconds": 3600}));
    wait_for(&run, |progress| progress.events > 100);
    run.open_window().unwrap();
    let before = run.progress().unwrap().events;
    wait_for(&run, |progress| progress.events > before + 500);
    let result = run.close_window().unwrap();
    let rows = result.rows.unwrap();
    assert_eq!((rows.committed, rows.commits), (2 * result.events, 0));
    assert!(
        server.heard("COMMIT") == 1,
        "the window waits for one commit, an hour before its time"
    );
}

#[test]
fn commits_follow_the_clock_also_where_statements_are_rare() {
    let server = Server::start(USUAL);
    let spec = server.spec(|spec| {
        spec["workload"] = "upsert".into();
        spec["threads"] = 1.into();
        spec["rate"] = 0.01.into(); // rows/s: the second statement of two is due after 200 s
        spec["upsert"] = serde_json::json!(
            {"rows": 2, "key": "primary", "hit_ratio": 0.5, "commit_seconds": 0.05});
    });
    let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
    run.start().unwrap();
    let progress = wait_for(&run, |_| server.heard("COMMIT") == 1);
    assert_eq!(progress.events, 1);
    assert!(progress.elapsed_s >= 0.05, "{}", progress.elapsed_s);
}

#[test]
fn a_deadlock_takes_back_the_whole_transaction() {
    let server = Server::executing(|number| Act::Answer(if number % 10 == 0 { DEADLOCK } else { OK }));
    let mut run = server.upsert(serde_json::json!({"commit_rows": 1_000_000}));
    run.open_window().unwrap();
    wait_for(&run, |progress| progress.events > 900);
    let result = run.close_window().unwrap();
    let rows = result.rows.unwrap();
    // Nine statements in each transaction, until the last, which the window's end commits.
    assert!(rows.committed <= 18, "{}", rows.committed);
    assert_eq!(rows.committed + rows.rolled_back, 2 * result.events);
    assert!(server.heard("ROLLBACK") >= 99);
}

#[test]
fn a_commit_that_fails_takes_its_rows_back_and_the_load_goes_on() {
    let server = Server::start(Script {
        commit: |number| if number % 2 == 0 { DEADLOCK } else { OK },
        ..USUAL
    });
    let mut run = server.upsert(serde_json::json!({"commit_rows": 2}));
    run.open_window().unwrap();
    wait_for(&run, |progress| progress.events > 1000);
    let result = run.close_window().unwrap();
    let rows = result.rows.unwrap();
    assert!(rows.committed.abs_diff(rows.rolled_back) <= 2, "{rows:?}");
    assert_eq!(result.errors[0].errno, 1213);
}

#[test]
fn a_script_is_timed_by_kind() {
    let server = Server::start(USUAL);
    let result = server
        .run(
            "CREATE TABLE a (x INT);\nINSERT INTO a VALUES (1);\nINSERT INTO a VALUES (2)",
            10.0,
        )
        .unwrap();
    assert_eq!((result.events, result.latency_us), (3, None));
    let mut kinds: Vec<_> = result
        .kinds
        .iter()
        .map(|kind| (kind.kind.as_str(), kind.count))
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, [("CREATE TABLE", 1), ("INSERT", 2)]);
    let sum: f64 = result.kinds.iter().map(|kind| kind.seconds).sum();
    assert!(
        sum > 0.0 && (sum - result.seconds).abs() < 1e-6,
        "{sum} of {}",
        result.seconds
    );
    let insert = result.kinds.iter().find(|kind| kind.kind == "INSERT").unwrap();
    assert!([2, 3].contains(&insert.slowest_line) && insert.slowest_s <= insert.seconds);
}

#[test]
fn statements_and_rows_of_more_than_16_mib_pass() {
    let server = Server::start(USUAL);
    let long = format!("REPLACE INTO a VALUES ('{}')", "y".repeat(LONG));
    let result = server
        .run(&format!("LONG ROW;{long};LONG ROW;SELECT 1"), 60.0)
        .unwrap();
    assert_eq!(result.events, 4);
    let said = server.seen.statements.lock().unwrap();
    assert!(said.contains(&long));
}

#[test]
fn a_refused_statement_ends_the_script_with_its_line() {
    let server = Server::start(USUAL);
    let error = server.run("SELECT 1;\n\nFAIL;\nSELECT 2", 10.0).unwrap_err();
    assert_eq!((error.kind, error.errno), (ErrorKind::Server, Some(1213)));
    assert!(
        error.message.starts_with("line 3: FAIL: Deadlock found"),
        "{}",
        error.message
    );
    assert_eq!(server.heard("SELECT 2"), 0);
}

#[test]
fn a_script_that_does_not_end_in_time_says_where_it_was() {
    let server = Server::start(USUAL);
    let begun = Instant::now();
    let error = server.run("SELECT 1;\nHANG", 0.3).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Measurement);
    assert!(
        error
            .message
            .starts_with("line 2: HANG: the script did not end within 0.3 s"),
        "{}",
        error.message
    );
    assert!(begun.elapsed() < PATIENCE);
}

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("flushlab-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Connection, counter and position of each note.
    fn notes(&self) -> Vec<(u64, u64, u64)> {
        let bytes = std::fs::read(self.0.join("notes")).unwrap();
        let number = |note: &[u8], at: usize| u64::from_le_bytes(note[at..at + 8].try_into().unwrap());
        let notes = bytes.chunks_exact(32);
        assert!(notes.remainder().is_empty(), "a note is written whole");
        notes
            .map(|note| (number(note, 0), number(note, 8), number(note, 16)))
            .collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A load of `events` events with an acknowledgement table; the server and the notes.
fn with_acks(name: &str, workload: &str, rows: u32, script: Script) -> (Server, Vec<(u64, u64, u64)>) {
    let folder = Folder::new(name);
    std::fs::write(folder.0.join("position"), 4711_u64.to_le_bytes()).unwrap();
    let server = Server::start(script);
    let spec = server.spec(|spec| {
        spec["workload"] = workload.trim_end_matches(" --skip_trx").into();
        if workload.ends_with("--skip_trx") {
            spec["oltp"] = serde_json::json!({
                "point_selects": 1, "simple_ranges": 0, "sum_ranges": 0, "order_ranges": 0, "distinct_ranges": 0,
                "index_updates": 1, "non_index_updates": 0, "delete_inserts": 0, "range_size": 100,
                "range_selects": true, "skip_trx": true, "auto_inc": true, "secondary": false,
                "create_secondary": true,
            });
        }
        spec["acks"] = serde_json::json!({
            "file": folder.0.join("notes"), "position": folder.0.join("position"), "rows": rows,
        });
    });
    let mut run = LoadRun::connect(&spec, Arc::new(Cancellation::new())).unwrap();
    run.start().unwrap();
    wait_for(&run, |progress| progress.events > 50);
    run.stop();
    (server, folder.notes())
}

/// Every connection's counters in the order of their notes.
fn counters(notes: &[(u64, u64, u64)], connection: u64) -> Vec<u64> {
    let own = notes.iter().filter(|note| note.0 == connection);
    own.map(|note| note.1).collect()
}

#[test]
fn each_acknowledged_acked_transaction_is_noted_once_in_its_connections_order() {
    let (_, notes) = with_acks("acks", "acked_inserts", 1, USUAL);
    for connection in [1, 2] {
        let own = counters(&notes, connection);
        assert_eq!(own, (1..=own.len() as u64).collect::<Vec<_>>());
    }
    assert!(notes.len() > 50 && notes.iter().all(|note| note.2 == 4711));
}

#[test]
fn an_acked_transaction_of_several_rows_is_noted_when_its_commit_is_answered() {
    let (server, notes) = with_acks("acks-rows", "acked_inserts", 3, USUAL);
    let (begun, committed) = (server.heard("BEGIN"), server.heard("COMMIT"));
    assert!(begun >= committed && committed >= notes.len() && notes.len() > 50);
}

#[test]
fn a_workload_that_commits_by_itself_gets_the_acks_row_in_its_transaction() {
    let (server, notes) = with_acks("acks-oltp", "oltp_write_only", 1, USUAL);
    // sysbench's BEGIN and COMMIT are prepared; the acknowledgement table adds none.
    assert_eq!((server.heard("BEGIN"), server.heard("COMMIT")), (2, 2));
    assert_eq!(server.heard("INSERT INTO flushlab_acks"), 2);
    assert!(notes.len() > 50);
}

#[test]
fn statements_that_commit_by_themselves_have_the_acks_row_in_front() {
    let (server, notes) = with_acks("acks-update", "oltp_update_non_index", 1, USUAL);
    let executed = server.seen.executions.load(Ordering::Relaxed) as usize;
    // Two executions an event, of which the first is noted.
    assert!(
        executed.abs_diff(2 * notes.len()) <= 4,
        "{executed} {}",
        notes.len()
    );
}

#[test]
fn a_read_that_is_no_transactions_first_statement_has_the_acks_rows_in_one_of_their_own() {
    let (server, notes) = with_acks("acks-read", "oltp_read_write --skip_trx", 2, USUAL);
    let (begun, committed) = (server.heard("BEGIN"), server.heard("COMMIT"));
    assert!(begun >= committed && committed >= notes.len() && notes.len() > 25);
}

#[test]
fn a_transaction_of_acked_inserts_that_is_refused_is_tried_again_under_the_same_number() {
    let refuses = |number| Act::Answer(if number % 3 == 0 { DEADLOCK } else { OK });
    let script = Script {
        execution: refuses,
        ..USUAL
    };
    let (_, notes) = with_acks("acks-refused", "acked_inserts", 1, script);
    let own = counters(&notes, 1);
    assert_eq!(own, (1..=own.len() as u64).collect::<Vec<_>>());
}

#[test]
fn acks_are_refused_where_events_are_not_transactions() {
    let server = Server::start(USUAL);
    let mut value = serde_json::json!({
        "workload": "upsert", "upsert": {"rows": 1, "key": "primary", "hit_ratio": 0.5, "commit_rows": 10},
        "endpoint": {"user": "u", "password": "p", "socket": server.socket.path, "host": null, "port": null},
        "transport": "socket", "database": "d", "threads": 1, "tables": 1, "table_size": 1,
        "rand_type": "special", "seed": 1, "ignored_errors": [], "acks": {"file": "/nowhere", "rows": 1},
    });
    let refusal = |value: &serde_json::Value| LoadSpec::from_json(&serde_json::to_vec(value).unwrap()).err();
    assert!(refusal(&value).unwrap().message.contains("commit_rows"));
    value["upsert"]["commit_rows"] = serde_json::Value::Null;
    assert_eq!(refusal(&value), None);
    value["acks"]["rows"] = 0.into();
    assert!(refusal(&value).unwrap().message.contains("acks.rows is 0"));
}
