//! One port on loopback whose server can be exchanged: connections to it lead to the server of the
//! moment, and an exchange cuts those that are open.
//!
//! Two threads per connection copy what comes; they block, so that nothing runs while nothing is sent.
//! It knows nothing of MySQL's protocol: login, encryption and packets pass as they are.
//!
//! A connection takes two descriptors. When the process has none left, new connections wait in the listener's queue
//! until others end; [`Proxy::shortages`] counts such waits.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{getrlimit, setrlimit, Resource};
use parking_lot::{Mutex, MutexGuard};

/// How long to wait before a descriptor, memory or a thread is asked for again.
const PAUSE: Duration = Duration::from_millis(50);

const BUFFER_BYTES: usize = 64 << 10;

/// A port that leads to a server.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<SharedTarget>,
}

#[derive(Debug)]
struct SharedTarget {
    state: Mutex<State>,
    shortages: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Port of the server; None when the proxy is closed.
    target: Option<u16>,
    open: HashMap<u64, [Arc<TcpStream>; 2]>,
    next: u64,
}

impl Proxy {
    /// Listens on `port` of 127.0.0.1 (0: a free one) and leads to the port `target` there.
    ///
    /// # Errors
    ///
    /// The port is taken.
    pub fn listen(port: u16, target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        raise_limit();
        let shared = Arc::new(SharedTarget {
            state: Mutex::new(State {
                target: Some(target),
                open: HashMap::new(),
                next: 0,
            }),
            shortages: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::Builder::new()
            .name("proxy".into())
            .spawn(move || accept(&listener, &accepting))?;
        Ok(Self { port, shared })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How often a connection had to wait because the system gave no descriptor, memory or thread for it.
    pub fn shortages(&self) -> u64 {
        self.shared.shortages.load(Ordering::Relaxed)
    }

    /// Leads to another server from now on, and cuts the connections to the one before.
    pub fn switch(&self, target: u16) {
        let mut state = self.shared.state();
        if state.target.is_some() {
            state.target = Some(target);
        }
        state.cut();
    }

    /// Listens no more and cuts all connections; does nothing the second time.
    pub fn close(&self) {
        let mut state = self.shared.state();
        let was_open = state.target.take().is_some();
        state.cut();
        drop(state);
        if was_open {
            // Wakes the accepting thread, which then finds the proxy closed.
            let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedTarget {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Both ends of a connection that is not cut without being known: a switch in between makes it
    /// connect again, to the new server.
    fn join(&self, client: &Arc<TcpStream>) -> io::Result<Option<(u64, Arc<TcpStream>)>> {
        loop {
            let Some(target) = self.state().target else {
                return Ok(None);
            };
            let server = match TcpStream::connect((Ipv4Addr::LOCALHOST, target)) {
                Err(error) if self.is_shortage(&error) => continue,
                connected => Arc::new(connected?),
            };
            server.set_nodelay(true)?;
            let ends = [client.clone(), server.clone()];
            let mut state = self.state();
            if state.target == Some(target) {
                let id = state.next;
                state.next += 1;
                state.open.insert(id, ends);
                return Ok(Some((id, server)));
            }
        }
    }
}

impl SharedTarget {
    /// Closes a connection, if it is still open.
    fn end(&self, id: u64) {
        if let Some([client, server]) = self.state().open.remove(&id) {
            shut(&[&client, &server]);
        }
    }

    /// Whether the system had nothing to give; counts that, and waits a little.
    fn is_shortage(&self, error: &io::Error) -> bool {
        let short = matches!(
            error.raw_os_error().map(Errno::from_raw),
            Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM | Errno::EAGAIN)
        );
        if short {
            self.shortages.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
        short
    }
}

impl State {
    fn cut(&mut self) {
        for (_, ends) in self.open.drain() {
            shut(&[&ends[0], &ends[1]]);
        }
    }
}

/// Lets the process have as many descriptors as it may; two of them are one connection.
fn raise_limit() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // A limit that stays makes connections wait; that is counted.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<SharedTarget>) {
    for client in listener.incoming() {
        if shared.state().target.is_none() {
            return;
        }
        let client = match client {
            Ok(client) => Arc::new(client),
            Err(error) => {
                shared.is_shortage(&error); // else a client that left again
                continue;
            }
        };
        let _ = client.set_nodelay(true);
        // Here, not in its thread: clients that are let in must not take the descriptors that lead on to the server.
        let Ok(Some((id, server))) = shared.join(&client) else {
            continue; // a server that cannot be reached is a connection closed at once
        };
        let serving = Arc::clone(shared);
        let thread = thread::Builder::new().name("proxy-in".into());
        if let Err(error) = thread.spawn(move || serve(id, &client, &server, &serving)) {
            // Without a thread to be had, the connection is dropped: the client sees it closed.
            shared.end(id);
            shared.is_shortage(&error);
        }
    }
}

/// One connection, to its end.
fn serve(id: u64, client: &Arc<TcpStream>, server: &Arc<TcpStream>, shared: &SharedTarget) {
    let back = {
        let (client, server) = (client.clone(), server.clone());
        let thread = thread::Builder::new().name("proxy-out".into());
        thread.spawn(move || copy(&server, &client))
    };
    match back {
        Ok(back) => {
            copy(client, server);
            let _ = back.join();
        }
        Err(error) => {
            shared.is_shortage(&error);
        }
    }
    shared.end(id);
}

/// Copies until one end closes or breaks, then closes both: the protocol has no half-open connections.
fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    shut(&[from, to]);
}

fn shut(ends: &[&TcpStream]) {
    for end in ends {
        // One that is closed already is what was wanted.
        let _ = end.shutdown(Shutdown::Both);
    }
}
