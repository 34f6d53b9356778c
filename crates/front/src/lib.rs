//! One port on loopback whose server can be exchanged: connections to it lead to the server of the
//! moment, and an exchange cuts those that are open.
//!
//! Two threads per connection copy what comes; they block, so that nothing runs while nothing is sent.
//! It knows nothing of MySQL's protocol: login, encryption and packets pass as they are.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

const BUFFER_BYTES: usize = 64 << 10;

/// A port that leads to a server.
#[derive(Debug)]
pub struct Front {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Port of the server; None when the front is closed.
    target: Option<u16>,
    open: HashMap<u64, [TcpStream; 2]>,
    next: u64,
}

impl Front {
    /// Listens on `port` of 127.0.0.1 (0: a free one) and leads to the port `target` there.
    ///
    /// # Errors
    ///
    /// The port is taken.
    pub fn listen(port: u16, target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared(Mutex::new(State {
            target: Some(target),
            open: HashMap::new(),
            next: 0,
        })));
        let accepting = Arc::clone(&shared);
        thread::Builder::new()
            .name("front".into())
            .spawn(move || accept(&listener, &accepting))?;
        Ok(Self { port, shared })
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
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
            // Wakes the accepting thread, which then finds the front closed.
            let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Both ends of a connection that is not cut without being known: a switch in between makes it
    /// connect again, to the new server.
    fn join(&self, client: &TcpStream) -> io::Result<Option<(u64, TcpStream)>> {
        loop {
            let Some(target) = self.state().target else {
                return Ok(None);
            };
            let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
            server.set_nodelay(true)?;
            let ends = [client.try_clone()?, server.try_clone()?];
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

impl State {
    fn cut(&mut self) {
        for (_, ends) in self.open.drain() {
            shut(&ends);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.state().target.is_none() {
            return;
        }
        let Ok(client) = client else { continue };
        let shared = Arc::clone(shared);
        // Without a thread to be had, the connection is dropped: the client sees it closed.
        let _ = thread::Builder::new()
            .name("front-in".into())
            .spawn(move || serve(&client, &shared));
    }
}

/// One connection, to its end. A server that cannot be reached is a connection closed at once.
fn serve(client: &TcpStream, shared: &Shared) {
    let _ = client.set_nodelay(true);
    let Ok(Some((id, server))) = shared.join(client) else {
        return;
    };
    if let (Ok(mut from_server), Ok(mut to_client)) = (server.try_clone(), client.try_clone()) {
        let back = thread::Builder::new()
            .name("front-out".into())
            .spawn(move || copy(&mut from_server, &mut to_client));
        if let (Ok(mut from_client), Ok(mut to_server)) = (client.try_clone(), server.try_clone()) {
            copy(&mut from_client, &mut to_server);
        }
        if let Ok(back) = back {
            let _ = back.join();
        }
    }
    shut(&[client, &server]);
    shared.state().open.remove(&id);
}

/// Copies until one end closes or breaks, then closes both: the protocol has no half-open connections.
fn copy(from: &mut TcpStream, to: &mut TcpStream) {
    let mut buffer = vec![0; BUFFER_BYTES];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    shut(&[from, to]);
}

fn shut(ends: &[impl std::borrow::Borrow<TcpStream>]) {
    for end in ends {
        // One that is closed already is what was wanted.
        let _ = end.borrow().shutdown(Shutdown::Both);
    }
}
