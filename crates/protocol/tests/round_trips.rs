//! Every packet type both ways: what the codec writes is read by a server's side made from the manual (MySQL
//! internals manual, "Client/Server Protocol"), and what that side writes is read by the codec.

use flushlab_protocol::auth::{Plugin, ED25519_NONCE, NONCE};
use flushlab_protocol::command::{self, Param};
use flushlab_protocol::field::{put_lenenc, put_lenenc_bytes, Reader};
use flushlab_protocol::handshake::{
    capability, put_response, put_ssl_request, Handshake, Response as Answer,
};
use flushlab_protocol::login::{Credentials, Login, Step as LoginStep};
use flushlab_protocol::packet::{frame, Inbox, MAX_PAYLOAD};
use flushlab_protocol::response::{text_columns, Completed, Preparation, Prepared, Response, Step};
use flushlab_protocol::{Error, ServerError};
use proptest::collection::vec;
use proptest::prelude::*;

/// What a server sends.
mod server {
    use super::*;

    pub fn greeting(version: &str, id: u32, capabilities: u32, nonce: &[u8; NONCE], plugin: &str) -> Vec<u8> {
        let (low, high) = (capabilities as u16, (capabilities >> 16) as u16);
        let mut out = vec![10];
        out.extend_from_slice(version.as_bytes());
        out.push(0);
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&nonce[..8]);
        out.push(0);
        out.extend_from_slice(&low.to_le_bytes());
        out.extend_from_slice(&[45, 2, 0]); // charset, status
        out.extend_from_slice(&high.to_le_bytes());
        out.push(NONCE as u8 + 1);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(&nonce[8..]);
        out.push(0);
        out.extend_from_slice(plugin.as_bytes());
        out.push(0);
        out
    }

    pub fn ok(completed: &Completed, insert_id: u64, info: &[u8]) -> Vec<u8> {
        let mut out = vec![0];
        put_lenenc(&mut out, completed.affected_rows);
        put_lenenc(&mut out, insert_id);
        out.extend_from_slice(&completed.status.to_le_bytes());
        out.extend_from_slice(&completed.warnings.to_le_bytes());
        out.extend_from_slice(info);
        out
    }

    pub fn eof(status: u16, warnings: u16) -> Vec<u8> {
        [&[0xFE], &warnings.to_le_bytes()[..], &status.to_le_bytes()].concat()
    }

    pub fn error(error: &ServerError) -> Vec<u8> {
        let mut out = vec![0xFF];
        out.extend_from_slice(&error.errno.to_le_bytes());
        out.push(b'#');
        out.extend_from_slice(error.sqlstate.as_bytes());
        out.extend_from_slice(error.message.as_bytes());
        out
    }

    pub fn column(name: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for text in ["def", "schema", "table", "table", name, name] {
            put_lenenc_bytes(&mut out, text.as_bytes());
        }
        out.extend_from_slice(&[12, 45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0]);
        out
    }

    pub fn row(columns: &[Option<Vec<u8>>]) -> Vec<u8> {
        let mut out = Vec::new();
        for column in columns {
            match column {
                None => out.push(0xFB),
                Some(text) => put_lenenc_bytes(&mut out, text),
            }
        }
        out
    }
}

fn completed() -> impl Strategy<Value = Completed> {
    // Bit 3 of the status announces another result.
    (any::<u64>(), any::<u16>(), any::<u16>()).prop_map(|(affected_rows, status, warnings)| Completed {
        affected_rows,
        status: status & !8,
        warnings,
    })
}

/// The payload of a command, sent as one packet under sequence number 0.
fn sent(packet: &[u8]) -> Vec<u8> {
    let mut inbox = Inbox::new(MAX_PAYLOAD);
    let mut rest = packet;
    while !rest.is_empty() {
        let spare = inbox.spare();
        let count = spare.len().min(rest.len());
        spare[..count].copy_from_slice(&rest[..count]);
        inbox.filled(count);
        rest = &rest[count..];
    }
    assert_eq!(inbox.ready(), Ok(true));
    let payload = inbox.take().unwrap().to_vec();
    assert!(inbox.is_empty());
    payload
}

/// A value as a server reads it: its type, and its bytes.
fn bound(reader: &mut Reader<'_>, kind: u8) -> Result<Vec<u8>, Error> {
    Ok(match kind {
        3 => reader.bytes(4)?.to_vec(),
        8 => reader.bytes(8)?.to_vec(),
        254 => reader.lenenc_bytes()?.to_vec(),
        other => panic!("type {other} is not bound here"),
    })
}

#[derive(Debug, Clone)]
enum Value {
    Int(i32),
    BigInt(i64),
    Char(Vec<u8>),
}

impl Value {
    fn param(&self) -> Param<'_> {
        match self {
            Self::Int(value) => Param::Int(*value),
            Self::BigInt(value) => Param::BigInt(*value),
            Self::Char(bytes) => Param::Char(bytes),
        }
    }

    fn on_the_wire(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Int(value) => (3, value.to_le_bytes().to_vec()),
            Self::BigInt(value) => (8, value.to_le_bytes().to_vec()),
            Self::Char(bytes) => (254, bytes.clone()),
        }
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(Value::Int),
        any::<i64>().prop_map(Value::BigInt),
        vec(any::<u8>(), 0..300).prop_map(Value::Char),
    ]
}

proptest! {
    #[test]
    fn greetings(version in "[1-9][0-9.]{0,20}(-log)?", id: u32, more: u32, nonce: [u8; NONCE], plugin in "[a-z_]{0,30}") {
        let capabilities = more | capability::REQUIRED;
        let read = Handshake::parse(&server::greeting(&version, id, capabilities, &nonce, &plugin)).unwrap();
        prop_assert_eq!(read.offers_tls(), more & capability::SSL != 0);
        let plugin = plugin.into_bytes();
        prop_assert_eq!(read, Handshake { version, connection_id: id, capabilities, nonce, plugin });
    }

    #[test]
    fn answers_to_a_greeting(
        user in "[a-z]{0,32}",
        auth in vec(any::<u8>(), 0..251),
        database in proptest::option::of("[a-z]{1,64}"),
        plugin in "[a-z_]{1,30}",
        max_packet: u32,
        local_files: bool,
        tls: bool,
    ) {
        let mut out = Vec::new();
        put_response(&mut out, Answer { user: &user, auth: &auth, database: database.as_deref(), plugin: &plugin, max_packet, local_files, tls });
        let mut reader = Reader::new(&out);
        let capabilities = reader.u32().unwrap();
        prop_assert_eq!(capabilities & capability::REQUIRED, capability::REQUIRED);
        prop_assert_eq!(capabilities & capability::SSL != 0, tls);
        prop_assert_eq!(capabilities & capability::LOCAL_FILES != 0, local_files);
        prop_assert_eq!(capabilities & capability::CONNECT_WITH_DB != 0, database.is_some());
        prop_assert_eq!(reader.u32().unwrap(), max_packet);
        prop_assert_eq!(reader.u8().unwrap(), 45);
        prop_assert_eq!(reader.bytes(23).unwrap(), &[0; 23]);
        prop_assert_eq!(reader.null_terminated().unwrap(), user.as_bytes());
        let length = reader.u8().unwrap(); // without PLUGIN_AUTH_LENENC_CLIENT_DATA
        prop_assert_eq!(reader.bytes(length.into()).unwrap(), &auth);
        if let Some(database) = &database {
            prop_assert_eq!(reader.null_terminated().unwrap(), database.as_bytes());
        }
        prop_assert_eq!(reader.null_terminated().unwrap(), plugin.as_bytes());
        prop_assert!(reader.is_empty());
        let mut request = Vec::new();
        put_ssl_request(&mut request, database.is_some(), local_files, max_packet);
        prop_assert_eq!(out.starts_with(&request), tls);
    }

    #[test]
    fn switches_of_the_authentication(nonce: [u8; ED25519_NONCE], password in "[ -~]{0,40}", number in 0usize..4) {
        let plugin = Plugin::ALL[number];
        let greeting = server::greeting("8.0", 1, u32::MAX, &[7; NONCE], "mysql_native_password");
        let credentials = Credentials { user: "me", password: &password, database: None, private_channel: true,
            get_server_public_key: false, local_files: false, tls: false };
        let (mut login, _) = Login::begin(credentials, &Handshake::parse(&greeting).unwrap()).unwrap();
        let length = if plugin == Plugin::Ed25519 { ED25519_NONCE } else { NONCE };
        let request = [&[0xFE], plugin.name().as_bytes(), &[0], &nonce[..length], &[0]].concat();
        let due = plugin.answer(password.as_bytes(), &nonce[..length]).unwrap();
        prop_assert_eq!(login.step(&request), Ok(LoginStep::Send(due)));
        prop_assert_eq!(login.step(&server::ok(&Completed::default(), 0, b"")), Ok(LoginStep::Done));
    }

    #[test]
    fn oks(due in completed(), insert_id: u64, info in vec(any::<u8>(), 0..50)) {
        let packet = server::ok(&due, insert_id, &info);
        prop_assert_eq!(Response::new().step(&packet), Ok(Step::Done(due)));
    }

    #[test]
    fn errors(errno: u16, sqlstate in "[0-9A-Z]{5}", message in "[^#]{0,100}") {
        let due = ServerError { errno, sqlstate, message };
        let read = Response::new().step(&server::error(&due)).unwrap_err();
        prop_assert_eq!(read, Error::Server(due));
    }

    #[test]
    fn result_sets(
        rows in (1usize..20).prop_flat_map(|columns| {
            vec(vec(proptest::option::of(vec(any::<u8>(), 0..300)), columns..=columns), 0..10)
        }),
        end in completed(),
    ) {
        let columns = rows.first().map_or(1, Vec::len);
        let mut response = Response::new();
        let mut head = Vec::new();
        put_lenenc(&mut head, columns as u64);
        prop_assert_eq!(response.step(&head), Ok(Step::More));
        for number in 0..columns {
            let column = server::column(&number.to_string());
            prop_assert_eq!(response.step(&column), Ok(Step::More));
        }
        let (begin, last) = (server::eof(2, 0), server::eof(end.status, end.warnings));
        prop_assert_eq!(response.step(&begin), Ok(Step::More));
        for row in &rows {
            let payload = server::row(row);
            prop_assert_eq!(response.step(&payload), Ok(Step::Row(&payload)));
            let read: Vec<_> = text_columns(&payload).map(|column| column.unwrap().map(<[u8]>::to_vec)).collect();
            prop_assert_eq!(&read, row);
        }
        let due = Completed { affected_rows: 0, ..end };
        prop_assert_eq!(response.step(&last), Ok(Step::Done(due)));
    }

    #[test]
    fn preparations(id: u32, params in 0u16..50, columns in 0u16..50) {
        let mut packets = vec![[&[0], &id.to_le_bytes()[..], &columns.to_le_bytes(), &params.to_le_bytes(), &[0, 0, 0]].concat()];
        for count in [params, columns] {
            packets.extend((0..count).map(|_| server::column("?")));
            packets.extend((count > 0).then(|| server::eof(2, 0)));
        }
        let mut preparation = Preparation::new();
        let last = packets.pop().unwrap();
        for packet in packets {
            prop_assert_eq!(preparation.step(&packet), Ok(None));
        }
        prop_assert_eq!(preparation.step(&last), Ok(Some(Prepared { id, params, columns })));
    }

    #[test]
    fn texts_and_farewells(sql in vec(any::<u8>(), 0..1000), id: u32) {
        let written = |write: &dyn Fn(&mut Vec<u8>) -> Result<(), Error>| {
            let mut out = Vec::new();
            write(&mut out).unwrap();
            sent(&out)
        };
        prop_assert_eq!(written(&|out| command::query(out, &sql)), [&[0x03], &sql[..]].concat());
        prop_assert_eq!(written(&|out| command::prepare(out, &sql)), [&[0x16], &sql[..]].concat());
        prop_assert_eq!(written(&|out| command::close(out, id)), [&[0x19], &id.to_le_bytes()[..]].concat());
        prop_assert_eq!(written(&command::quit), vec![0x01]);
    }

    #[test]
    fn executions(id: u32, values in vec(value(), 0..20), with_types: bool) {
        let mut out = Vec::new();
        command::execute(&mut out, id, with_types, values.iter().map(Value::param)).unwrap();
        let payload = sent(&out);
        let mut reader = Reader::new(&payload);
        prop_assert_eq!(reader.u8().unwrap(), 0x17);
        prop_assert_eq!(reader.u32().unwrap(), id);
        prop_assert_eq!(reader.u8().unwrap(), 0, "no cursor");
        prop_assert_eq!(reader.u32().unwrap(), 1, "iterations");
        if !values.is_empty() {
            let nulls = reader.bytes(values.len().div_ceil(8)).unwrap();
            prop_assert!(nulls.iter().all(|byte| *byte == 0));
            prop_assert_eq!(reader.u8().unwrap(), u8::from(with_types));
            for value in values.iter().filter(|_| with_types) {
                prop_assert_eq!(reader.u16().unwrap(), u16::from(value.on_the_wire().0));
            }
            for (kind, bytes) in values.iter().map(Value::on_the_wire) {
                prop_assert_eq!(bound(&mut reader, kind).unwrap(), bytes);
            }
        }
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn frames(payload in vec(any::<u8>(), 0..1000)) {
        let mut out = Vec::new();
        frame(&mut out, 0, |out| out.extend_from_slice(&payload)).unwrap();
        // An ERR packet is taken under any number, all others under the one that is due.
        prop_assert_eq!(sent(&out), payload);
    }
}
