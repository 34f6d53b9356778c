//! A server that says something to each client and then echoes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

/// Its port.
pub fn serve(greeting: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            thread::spawn(move || {
                connection.write_all(greeting).unwrap();
                let mut buffer = [0; 4096];
                while let Ok(count) = connection.read(&mut buffer) {
                    if count == 0 || connection.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}
