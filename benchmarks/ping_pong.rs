//! The floor for a client with one connection: a message and its answer over a blocking socket, and nothing else.
//!
//! `ping_pong socket|tcp batch|normal REQUEST_BYTES ANSWER_BYTES WORK_US SECONDS` prints round trips, seconds of CPU
//! of the asking thread, and seconds. The other thread works for WORK_US before each answer, as a server does, and is
//! scheduled as usual. `rustc -O benchmarks/ping_pong.rs` compiles it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

fn answer(mut stream: impl Stream, request: usize, answer: usize, work: Duration) {
    let (mut request, answer) = (vec![0; request], vec![0; answer]);
    while stream.read_exact(&mut request).is_ok() {
        let came = Instant::now();
        while came.elapsed() < work {
            std::hint::spin_loop();
        }
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// CPU time of the calling thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")
        .expect("the kernel keeps scheduler statistics");
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("schedstat begins with nanoseconds"))
}

/// Gives the calling thread SCHED_BATCH.
fn batch() {
    let this = std::fs::read_link("/proc/thread-self").expect("Linux has /proc");
    let this = this.file_name().expect("it is named after the thread").to_owned();
    let chrt = Command::new("chrt").args(["-b", "-p", "0"]).arg(this).status();
    assert!(chrt.is_ok_and(|status| status.success()), "chrt failed");
}

fn ask(mut stream: impl Stream, request: usize, answer: usize, length: Duration) {
    let (request, mut answer) = (vec![0; request], vec![0; answer]);
    let (start, before, mut trips) = (Instant::now(), cpu(), 0u64);
    while start.elapsed() < length {
        stream.write_all(&request).expect("the other thread reads");
        stream.read_exact(&mut answer).expect("the other thread answers");
        trips += 1;
    }
    let used = cpu() - before;
    println!("{trips} {} {}", used.as_secs_f64(), start.elapsed().as_secs_f64());
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [transport, sched, numbers @ ..] = &words[..] else {
        panic!("ping_pong socket|tcp batch|normal REQUEST_BYTES ANSWER_BYTES WORK_US SECONDS")
    };
    let numbers: Vec<f64> = numbers
        .iter()
        .map(|word| word.parse().expect("a number"))
        .collect();
    let [request, reply, work_us, seconds] = numbers[..] else {
        panic!("four numbers")
    };
    let (request, reply) = (request as usize, reply as usize);
    let work = Duration::from_secs_f64(work_us / 1e6);
    let length = Duration::from_secs_f64(seconds);
    if transport == "tcp" {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let ours = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
        let theirs = listener.accept().expect("it was asked").0;
        for stream in [&ours, &theirs] {
            stream.set_nodelay(true).expect("TCP knows it");
        }
        std::thread::spawn(move || answer(theirs, request, reply, work));
        if sched == "batch" {
            batch();
        }
        ask(ours, request, reply, length);
    } else {
        let (ours, theirs) = UnixStream::pair().expect("the system gives sockets");
        std::thread::spawn(move || answer(theirs, request, reply, work));
        if sched == "batch" {
            batch();
        }
        ask(ours, request, reply, length);
    }
}
