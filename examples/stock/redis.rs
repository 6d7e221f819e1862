//! A Redis of this program's own, on a port of this machine that was free, and as much of its protocol as a lock needs.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Failure;

/// How long it may take to start; far longer than it does.
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// The server ends with this.
pub(crate) struct Redis {
    connection: Mutex<BufReader<TcpStream>>,
    _server: Server,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Redis {
    /// `None` where the machine has none.
    pub(crate) fn start() -> Result<Option<Self>, Failure> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut redis = Command::new("redis-server");
        redis.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()]);
        let Ok(server) = redis.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        else {
            return Ok(None);
        };
        let (mut server, began) = (Server(server), Instant::now());
        let connection = loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(connection) => break connection,
                Err(error) if began.elapsed() > STARTS_WITHIN => return Err(error.into()),
                Err(_) if server.0.try_wait()?.is_some() => {
                    return Err("redis-server ended as it began".into());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(STARTS_WITHIN))?;
        Ok(Some(Redis { connection: Mutex::new(BufReader::new(connection)), _server: server }))
    }

    /// Takes the lock where nobody has it; it expires by itself.
    pub(crate) fn set_nx_px(&self, key: &str, holder: &str, expires: Duration) -> Result<bool, Failure> {
        let expires = expires.as_millis().to_string();
        Ok(self.ask(&["SET", key, holder, "NX", "PX", &expires])?.starts_with("+OK"))
    }

    /// Gives the lock back where it is the holder's still.
    pub(crate) fn delete_if(&self, key: &str, holder: &str) -> Result<(), Failure> {
        let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";
        self.ask(&["EVAL", script, "1", key, holder]).map(|_| ())
    }

    /// Both commands here are answered in one line, within some microseconds: nothing else waits meanwhile.
    fn ask(&self, words: &[&str]) -> Result<String, Failure> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.get_mut().write_all(request.as_bytes())?;
        let mut answer = String::new();
        connection.read_line(&mut answer)?;
        if answer.is_empty() || answer.starts_with('-') {
            return Err(format!("Redis: {answer:?}").into());
        }
        Ok(answer)
    }
}
