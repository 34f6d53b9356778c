//! A proxy before servers that answer with their name and then echo.

mod echo;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use flushlab_proxy::Proxy;

fn client(proxy: &Proxy) -> (TcpStream, u8) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    let mut name = [0];
    stream.read_exact(&mut name).unwrap();
    (stream, name[0])
}

#[test]
fn bytes_pass_both_ways_unchanged() {
    let proxy = Proxy::listen(0, echo::serve(b"a")).unwrap();
    let (mut stream, name) = client(&proxy);
    assert_eq!(name, b'a');
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut sending = stream.try_clone().unwrap();
    let content = sent.clone();
    let writer = thread::spawn(move || sending.write_all(&content).unwrap());
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).unwrap();
    writer.join().unwrap();
    assert!(got == sent);
}

#[test]
fn a_switch_cuts_what_is_open_and_leads_to_the_other_server() {
    let proxy = Proxy::listen(0, echo::serve(b"a")).unwrap();
    let (mut old, name) = client(&proxy);
    assert_eq!(name, b'a');
    proxy.switch(echo::serve(b"b"));
    let cut = old.read(&mut [0]);
    assert!(matches!(cut, Ok(0) | Err(_)));
    for _ in 0..20 {
        assert_eq!(client(&proxy).1, b'b');
    }
}

#[test]
fn a_server_that_is_gone_is_a_connection_that_closes() {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let proxy = Proxy::listen(0, port).unwrap();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let proxy = Proxy::listen(0, 1).unwrap();
    assert!(Proxy::listen(proxy.port(), 1).is_err());
}

#[test]
fn a_closed_front_frees_its_port() {
    let proxy = Proxy::listen(0, echo::serve(b"a")).unwrap();
    let port = proxy.port();
    let (mut open, _) = client(&proxy);
    proxy.close();
    assert!(matches!(open.read(&mut [0]), Ok(0) | Err(_)));
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = Proxy::listen(port, 1) {
        assert!(Instant::now() < deadline, "the port is still taken: {error:?}");
        thread::sleep(Duration::from_millis(1));
    }
}
