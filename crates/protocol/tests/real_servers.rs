//! Raw bytes of MySQL 5.7, 8.0, 9.7 and MariaDB 10.11, 11.8: read as they were meant, answered as they took it.

mod captures;

use captures::{Case, Side};
use flushlab_protocol::auth::{Plugin, NONCE};
use flushlab_protocol::command::{self, Param};
use flushlab_protocol::handshake::{put_ssl_request, Handshake};
use flushlab_protocol::login::{Credentials, Login, Step as LoginStep};
use flushlab_protocol::packet::{Inbox, LARGEST, MAX_PAYLOAD};
use flushlab_protocol::response::{text_columns, Completed, Preparation, Prepared, Response, Step};
use flushlab_protocol::Error;

const SERVERS: [&str; 5] = [
    "mariadb-10.11",
    "mariadb-11.8",
    "mysql-5.7",
    "mysql-8.0",
    "mysql-9.7",
];
/// As in `scripts/capture_protocol.py`.
const PASSWORD: &str = "a test password";
/// Most that an RSA key of 2,048 bits yields.
const ENCRYPTED: usize = 256;

fn named(name: &str) -> Vec<Case> {
    let cases: Vec<_> = captures::all()
        .into_iter()
        .filter(|case| case.name == name)
        .collect();
    assert!(!cases.is_empty(), "{name}");
    cases
}

/// The same case of all servers.
fn of_all(name: &str) -> Vec<Case> {
    let cases = named(name);
    let servers: Vec<_> = cases.iter().map(|case| case.server.as_str()).collect();
    assert_eq!(servers, SERVERS, "{name}");
    cases
}

fn handshake(case: &Case) -> Handshake {
    Handshake::parse(case.payloads(Side::Server).next().unwrap()).unwrap()
}

fn credentials<'a>(user: &'a str, case: &Case) -> Credentials<'a> {
    Credentials {
        user,
        password: PASSWORD,
        database: Some("flushlab"),
        private_channel: case.name.ends_with("unix"),
        get_server_public_key: true,
        local_files: false,
        tls: false,
    }
}

/// Replays a login: what the client sent is what we send, except for encrypted passwords, which are random, and the
/// size of the largest packet, which was 16 MiB when the logins were recorded.
fn replay(case: &Case, user: &str) -> Result<(), Error> {
    let mut client = case.payloads(Side::Client);
    let (mut login, answer) = Login::begin(credentials(user, case), &handshake(case)).unwrap();
    let mut recorded = client.next().unwrap().to_vec();
    recorded[4..8].copy_from_slice(&u32::try_from(LARGEST).unwrap().to_le_bytes());
    assert_eq!(recorded, answer, "{case:?}");
    for payload in case.payloads(Side::Server).skip(1) {
        match login.step(payload)? {
            LoginStep::Send(payload) if payload.len() == ENCRYPTED => {
                assert_eq!(client.next().unwrap().len(), ENCRYPTED);
            }
            LoginStep::Send(payload) => assert_eq!(client.next().unwrap(), payload, "{case:?}"),
            LoginStep::Wait => {}
            LoginStep::Done => return Ok(()),
        }
    }
    panic!("the login did not end: {case:?}");
}

#[test]
fn every_packet_comes_out_of_the_inbox_under_its_sequence_number() {
    let cases = captures::all();
    assert!(cases.len() > 100, "{}", cases.len());
    for case in cases {
        let mut inbox = Inbox::new(MAX_PAYLOAD);
        for (side, packet) in &case.packets {
            if packet[3] == 0 && *side == Side::Client {
                inbox.sent(255); // a command begins anew
            }
            let mut bytes = &packet[..];
            while !bytes.is_empty() {
                let spare = inbox.spare();
                let count = spare.len().min(bytes.len());
                spare[..count].copy_from_slice(&bytes[..count]);
                inbox.filled(count);
                bytes = &bytes[count..];
            }
            assert_eq!(inbox.ready(), Ok(true));
            assert_eq!(inbox.take(), Ok(&packet[4..]), "{case:?}");
        }
        assert!(inbox.is_empty());
    }
}

#[test]
fn greetings_name_version_plugin_and_tls() {
    for case in of_all("refused account") {
        let handshake = handshake(&case);
        let (flavor, series) = case.server.split_once('-').unwrap();
        assert!(handshake.version.starts_with(series), "{handshake:?}");
        assert_eq!(handshake.version.contains("MariaDB"), flavor == "mariadb");
        let sha2 = ["mysql-8.0", "mysql-9.7"].contains(&case.server.as_str());
        assert_eq!(
            Plugin::named(&handshake.plugin),
            Some(if sha2 { Plugin::CachingSha2 } else { Plugin::Native })
        );
        assert!(!handshake.nonce.contains(&0) && handshake.nonce.len() == NONCE);
        let tls = ["mariadb-11.8", "mysql-8.0", "mysql-9.7"].contains(&case.server.as_str());
        assert_eq!(handshake.offers_tls(), tls, "{}", case.server);
    }
}

#[test]
fn logins_that_servers_accepted_are_made_again() {
    let mut replayed = Vec::new();
    for case in captures::all() {
        if let Some(what) = case
            .name
            .strip_prefix("login ")
            .filter(|what| !what.starts_with("unspoken"))
        {
            let user = what.split(' ').next().unwrap();
            assert_eq!(replay(&case, user), Ok(()), "{case:?}");
            replayed.push(what.to_owned());
        }
    }
    let times = |what: &str| replayed.iter().filter(|one| *one == what).count();
    assert_eq!(times("mysql_native_password unix"), 4, "MySQL 9.7 has it no more");
    assert_eq!(times("caching_sha2_password full unix"), 2);
    assert_eq!(times("caching_sha2_password fast unix"), 2);
    assert_eq!(times("caching_sha2_password full tcp"), 2);
    assert!(times("ed25519 unix") >= 1);
}

#[test]
fn a_plugin_that_is_not_spoken_is_named() {
    for case in named("login unspoken sha256_password") {
        let Err(Error::Unspoken { what, .. }) = replay(&case, "sha256_password") else {
            panic!("{case:?}");
        };
        assert!(what.contains("sha256_password"), "{what}");
    }
}

/// What becomes of a login at the server's last word.
fn refusal(case: &Case) -> Error {
    let last = case.payloads(Side::Server).last().unwrap();
    let mut login = Login::begin(credentials("nobody", case), &handshake(case))
        .unwrap()
        .0;
    login.step(last).unwrap_err()
}

#[test]
fn a_wrong_password_is_the_servers_own_error() {
    for case in of_all("refused password") {
        let Error::Server(error) = refusal(&case) else {
            panic!("{case:?}");
        };
        assert_eq!((error.errno, error.sqlstate.as_str()), (1045, "28000"));
        assert!(error.message.starts_with("Access denied for user"));
    }
}

#[test]
fn an_account_that_does_not_exist_is_refused_or_led_astray_by_a_plugin_that_mysql_draws() {
    for case in of_all("refused account") {
        match refusal(&case) {
            Error::Server(error) => assert_eq!(error.errno, 1045),
            Error::Unspoken { what, hint } => {
                assert!(
                    case.server.starts_with("mysql") && what.contains("sha256_password"),
                    "{what}"
                );
                assert!(hint.contains("check user"), "{hint}");
            }
            Error::Protocol(message) => panic!("{message}: {case:?}"),
        }
    }
}

#[test]
fn too_many_connections_stands_where_the_greeting_would() {
    for case in of_all("too many connections") {
        let Err(Error::Server(error)) = Handshake::parse(case.payloads(Side::Server).next().unwrap()) else {
            panic!("{case:?}");
        };
        assert_eq!(
            (error.errno, error.message.as_str()),
            (1040, "Too many connections")
        );
    }
}

#[test]
fn a_request_for_tls_is_the_one_that_servers_took() {
    let cases = named("request for TLS");
    assert_eq!(cases.len(), 3);
    for case in cases {
        let mut request = Vec::new();
        put_ssl_request(&mut request, true, false, MAX_PAYLOAD as u32);
        assert_eq!(case.payloads(Side::Client).next().unwrap(), request);
    }
}

type Row = Vec<Option<String>>;

/// All rows, of all results, and how the answer ended.
fn answer(case: &Case) -> (Vec<Row>, Result<Completed, Error>) {
    let (mut response, mut rows) = (Response::new(), Vec::new());
    let mut payloads = case.payloads(Side::Server);
    let ended = loop {
        match response.step(payloads.next().expect("the answer did not end")) {
            Ok(Step::More | Step::File) => {}
            Ok(Step::Row(row)) => {
                let columns = text_columns(row).map(|column| {
                    column
                        .unwrap()
                        .map(|text| String::from_utf8_lossy(text).into_owned())
                });
                rows.push(columns.collect());
            }
            Ok(Step::Done(completed)) => break Ok(completed),
            Err(error) => break Err(error),
        }
    };
    assert_eq!(payloads.next(), None, "{case:?}");
    (rows, ended)
}

fn row(columns: &[&str]) -> Row {
    columns
        .iter()
        .map(|column| (*column != "NULL").then(|| (*column).to_owned()))
        .collect()
}

#[test]
fn text_results_are_read_whole() {
    let long = "x".repeat(300);
    for (name, rows) in [
        (
            "rows",
            vec![row(&["1", "one"]), row(&["2", "NULL"]), row(&["3", &long])],
        ),
        ("row of NULL first", vec![row(&["NULL", "1"])]),
        ("no rows", vec![]),
        ("rows with a warning", vec![row(&["0"])]),
        (
            "several results",
            vec![row(&["1"]), row(&["1"]), row(&["2"]), row(&["3"])],
        ),
    ] {
        for case in of_all(&format!("query: {name}")) {
            let (read, ended) = answer(&case);
            assert_eq!(read, rows, "{} {name}", case.server);
            let ended = ended.unwrap();
            assert_eq!(
                ended.warnings,
                u16::from(name.contains("warning")),
                "{}",
                case.server
            );
            assert_eq!(ended.status & 2, 2, "autocommit");
        }
    }
}

#[test]
fn oks_count_rows_and_errors_end_answers() {
    for (name, affected) in [("ok", 3), ("ok of nothing", 0)] {
        for case in of_all(&format!("query: {name}")) {
            assert_eq!(answer(&case).1.unwrap().affected_rows, affected, "{case:?}");
        }
    }
    for (name, errno, state) in [("error", 1146, "42S02"), ("error among rows", 1242, "21000")] {
        for case in of_all(&format!("query: {name}")) {
            let Err(Error::Server(error)) = answer(&case).1 else {
                panic!("{case:?}");
            };
            assert_eq!((error.errno, error.sqlstate.as_str()), (errno, state));
        }
    }
}

#[test]
fn prepared_statements_have_the_parameters_and_columns_that_they_have() {
    for (name, params, columns) in [("update", 2, 0), ("select", 1, 2), ("begin", 0, 0)] {
        for case in of_all(&format!("prepare {params} {columns}: {name}")) {
            let mut preparation = Preparation::new();
            let steps: Vec<_> = case
                .payloads(Side::Server)
                .map(|payload| preparation.step(payload).unwrap())
                .collect();
            let (last, before) = steps.split_last().unwrap();
            assert!(before.iter().all(Option::is_none), "{case:?}");
            let Some(Prepared { id, .. }) = *last else {
                panic!("{case:?}");
            };
            assert_eq!(*last, Some(Prepared { id, params, columns }));
        }
    }
}

#[test]
fn executions_are_encoded_as_servers_took_them_and_their_answers_are_read() {
    let update = [Param::Char(b"three"), Param::Int(3)];
    let select = [Param::Int(2)];
    for (name, params, rows) in [
        ("update", &update[..], 0),
        ("select", &select, 2),
        ("begin", &[], 0),
    ] {
        for case in of_all(&format!("execute {name}")) {
            let sent = &case.packets[0].1;
            let id = u32::from_le_bytes(sent[5..9].try_into().unwrap());
            let mut encoded = Vec::new();
            command::execute(&mut encoded, id, true, params.iter().copied()).unwrap();
            assert_eq!(*sent, encoded, "{case:?}");
            let mut response = Response::new();
            let steps: Vec<_> = case
                .payloads(Side::Server)
                .map(|payload| response.step(payload).unwrap())
                .collect();
            assert_eq!(
                steps.iter().filter(|step| matches!(step, Step::Row(_))).count(),
                rows
            );
            let Some(Step::Done(completed)) = steps.last() else {
                panic!("{case:?}");
            };
            assert_eq!(completed.affected_rows, u64::from(name == "update"));
        }
    }
}

#[test]
fn a_packet_of_a_server_cut_short_never_panics() {
    for case in captures::all() {
        for payload in case.payloads(Side::Server) {
            for end in 0..payload.len() {
                let _ = Handshake::parse(&payload[..end]);
                let _ = Response::new().step(&payload[..end]);
                let _ = Preparation::new().step(&payload[..end]);
            }
        }
    }
}
