//! Datagrams that the kernel threw away since the socket that they came for was full (proc(5), /proc/net/udp).

use std::collections::BTreeSet;

/// Those of the sockets on these local ports, since each was opened; `None` where the system does not tell.
pub(super) fn on_ports(ports: &BTreeSet<u16>) -> Option<u64> {
    let tables: Vec<String> = ["udp", "udp6"]
        .into_iter()
        .filter_map(|name| std::fs::read_to_string(format!("/proc/net/{name}")).ok())
        .collect();
    let found = tables.iter().map(|table| drops_in(table, ports));
    if tables.is_empty() { None } else { Some(found.sum()) }
}

fn drops_in(table: &str, ports: &BTreeSet<u16>) -> u64 {
    // After a line of headings: number, local address, …, and last how many were dropped.
    let drops = |line: &str| {
        let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        ports.contains(&port).then(|| line.split_whitespace().last()?.parse::<u64>().ok())?
    };
    table.lines().skip(1).filter_map(drops).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drops_of_the_ports_that_are_asked_for_are_added_up() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
                     \x20 311: 0100007F:1CF3 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 6012 2 0000000000000000 12\n\
                     \x20 312: 00000000:D431 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 6013 2 0000000000000000 5\n\
                     \x20 313: 00000000:D432 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 6014 2 0000000000000000 700\n";
        assert_eq!(drops_in(table, &BTreeSet::from([0x1CF3, 0xD431])), 17);
        assert_eq!(drops_in(table, &BTreeSet::from([0x1CF3])), 12);
        assert_eq!(drops_in(table, &BTreeSet::new()), 0);
        assert_eq!(drops_in("", &BTreeSet::from([1])), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_open_socket_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(on_ports(&BTreeSet::from([port])), Some(0));
    }
}
