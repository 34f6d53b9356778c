//! A proxy whose process has few descriptors. A process of its own, for the limit is the process's.

mod echo;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use flushlab_proxy::Proxy;
use nix::sys::resource::{getrlimit, setrlimit, Resource};

/// Says to the test binary that it is the proxy's process.
const INSIDE: &str = "FLUSHLAB_PROXY_TARGET";
const LIMIT: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// The proxy's process: tells its port, and at the end of its input its shortages.
#[test]
fn the_process_of_the_proxy() {
    let Ok(target) = std::env::var(INSIDE) else {
        return; // it is started by the tests below
    };
    setrlimit(Resource::RLIMIT_NOFILE, LIMIT / 2, LIMIT).unwrap();
    let proxy = Proxy::listen(0, target.parse().unwrap()).unwrap();
    assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap().0, LIMIT);
    eprintln!("proxy {}", proxy.port());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    eprintln!("proxy {}", proxy.shortages());
}

fn answers(stream: &mut TcpStream, wait: Duration) -> bool {
    stream.set_read_timeout(Some(wait)).unwrap();
    stream.write_all(b"x").unwrap();
    stream.read_exact(&mut [0]).is_ok()
}

#[test]
fn without_descriptors_connections_wait_and_the_front_does_not_spin() {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["the_process_of_the_proxy", "--exact", "--nocapture"])
        .env(INSIDE, echo::serve(b"").to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut from = process.stderr.take().unwrap();
    let mut byte = [0];
    let port: u16 = loop {
        from.read_exact(&mut byte).unwrap();
        said.push(byte[0] as char);
        if let Some(port) = said
            .strip_prefix("proxy ")
            .and_then(|said| said.strip_suffix('\n'))
        {
            break port.parse().unwrap();
        }
        if said.ends_with('\n') {
            said.clear();
        }
    };
    let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    // Two descriptors each, beside the process's own.
    let mut served: Vec<_> = (0..LIMIT / 2 - 8).map(|_| connect()).collect();
    for stream in &mut served {
        assert!(answers(stream, PATIENCE));
    }
    let mut waiting: Vec<_> = (0..LIMIT / 2).map(|_| connect()).collect();
    thread::sleep(Duration::from_secs(1));
    drop(served);
    let begun = Instant::now();
    let got = waiting.iter_mut().take(8).all(|stream| answers(stream, PATIENCE));
    assert!(
        got && begun.elapsed() < PATIENCE,
        "who waited is served when others have left"
    );
    drop(waiting);
    drop(process.stdin.take());
    let mut rest = String::new();
    from.read_to_string(&mut rest).unwrap();
    assert!(process.wait().unwrap().success(), "{rest}");
    let line = rest.lines().find_map(|line| line.strip_prefix("proxy ")).unwrap();
    let shortages: u64 = line.parse().unwrap();
    assert!(shortages > 0, "{line}");
    assert!(
        shortages < 2000,
        "each is a wait of 50 ms, not a turn of a loop: {line}"
    );
}
