//! Endpoints where a server other than etcd answers, and a name server that doesn't answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use harness::{Authority, ETCD, ETCDCTL, EtcdMember, is_root, needs};
use serde_json::json;

use super::Cluster;
use super::injected::Victim;

/// Reaction of a server to a connection.
type Answer = fn(TcpStream) -> std::io::Result<()>;

/// An empty SETTINGS frame of HTTP/2.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// How long a server is silent: longer than any timeout here.
const SILENCE: Duration = Duration::from_secs(20);

fn read_some(connection: &mut TcpStream) -> std::io::Result<()> {
    connection.read(&mut [0; 100]).map(|_| ())
}

fn silent(_connection: TcpStream) -> std::io::Result<()> {
    sleep(SILENCE);
    Ok(())
}

fn closes(_: TcpStream) -> std::io::Result<()> {
    Ok(())
}

fn half_closed(mut connection: TcpStream) -> std::io::Result<()> {
    read_some(&mut connection)?;
    connection.shutdown(Shutdown::Write)?;
    silent(connection)
}

fn garbage(mut connection: TcpStream) -> std::io::Result<()> {
    read_some(&mut connection)?;
    connection.write_all(&[0xa5; 5000])
}

fn http_1(mut connection: TcpStream) -> std::io::Result<()> {
    read_some(&mut connection)?;
    connection.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno")
}

fn endless(mut connection: TcpStream) -> std::io::Result<()> {
    read_some(&mut connection)?;
    loop {
        connection.write_all(&[0; 65536])?;
    }
}

/// An endless answer that grows slowly, byte by byte.
fn trickle(mut connection: TcpStream) -> std::io::Result<()> {
    read_some(&mut connection)?;
    connection.write_all(&SETTINGS)?;
    sleep(Duration::from_millis(100));
    // The headers of the first stream: `:status: 200`.
    connection.write_all(&[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88])?;
    loop {
        connection.write_all(&[0, 0, 1, 0, 0, 0, 0, 0, 1, 0])?;
        sleep(Duration::from_millis(20));
    }
}

/// An answer whose header announces 4 GiB.
fn huge(mut connection: TcpStream) -> std::io::Result<()> {
    read_some(&mut connection)?;
    connection.write_all(&SETTINGS)?;
    sleep(Duration::from_millis(100));
    connection.write_all(&[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88])?;
    connection.write_all(&[0, 0, 5, 0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff])?;
    silent(connection)
}

/// A web server with HTTP/2 that answers `:status: 404`.
fn http_2(mut connection: TcpStream) -> std::io::Result<()> {
    read_some(&mut connection)?;
    connection.write_all(&SETTINGS)?;
    sleep(Duration::from_millis(100));
    connection.write_all(&[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x8d])?;
    silent(connection)
}

/// An empty answer to the first request, as of a gRPC service that knows none of its fields.
fn empty(mut connection: TcpStream) -> std::io::Result<()> {
    read_some(&mut connection)?;
    connection.write_all(&SETTINGS)?;
    sleep(Duration::from_millis(100));
    connection.write_all(&[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88])?;
    connection.write_all(&[0, 0, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0])?;
    // Trailers of the first stream: `grpc-status: 0`.
    connection.write_all(&[0, 0, 15, 1, 5, 0, 0, 0, 1, 0, 11])?;
    connection.write_all(b"grpc-status\x010")?;
    silent(connection)
}

/// Starts a server that ends with the tests; returns its URL.
fn serve(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || answer(connection));
        }
    });
    url
}

#[test]
fn what_is_not_etcd_costs_no_more_than_its_share_of_the_timeout() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    let servers: [(&str, Answer); 10] = [
        ("silent", silent),
        ("closes", closes),
        ("half-closed", half_closed),
        ("garbage", garbage),
        ("http-1", http_1),
        ("http-2", http_2),
        ("endless", endless),
        ("trickle", trickle),
        ("huge", huge),
        ("empty", empty),
    ];
    let pools = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    thread::scope(|scope| {
        for (name, answer) in servers {
            let (cluster, pools) = (&cluster, &pools);
            scope.spawn(move || {
                let url = serve(answer);
                let mut victim = Victim::new(cluster, "ipam-da-etcd", name, pools);
                let etcd = &mut victim.config["ipam"]["etcd"];
                etcd["timeout"] = json!("600ms");
                etcd["endpoints"] = json!([url]);
                let started = Instant::now();
                for command in ["ADD", "DEL"] {
                    let error = victim.run(command, name).error();
                    assert_eq!(error["code"], 11, "{name}: {error}");
                    let msg = error["msg"].as_str().unwrap();
                    assert!(msg.contains(&url), "{name}: {msg}");
                }
                assert!(
                    started.elapsed() < SILENCE / 2,
                    "{name}: {:?}",
                    started.elapsed()
                );
                // Beside a working member, such an endpoint doesn't matter, whichever is asked
                // first.
                let etcd = &mut victim.config["ipam"]["etcd"];
                etcd["timeout"] = json!("10s");
                etcd["endpoints"] = json!([url, cluster.etcd.url()]);
                for i in 0..4 {
                    let container = format!("{name}-{i}");
                    let cache = cluster.sandbox.root().join(format!("cache-{container}"));
                    victim.config["ipam"]["etcd"]["cacheDir"] = json!(cache);
                    victim.run("ADD", &container).result();
                    victim.run("DEL", &container).nothing();
                }
            });
        }
    });
    assert!(cluster.reserved("red").is_empty());
}

#[test]
fn a_servers_certificate_for_another_name_is_refused() {
    needs!(ETCD, ETCDCTL);
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new(folder.path());
    let server = authority.sign("server", &["127.0.0.2", "etcd.example.org"]);
    let [cert, key] = [&server.cert, &server.key].map(|path| path.to_str().unwrap());
    let arguments = ["--cert-file", cert, "--key-file", key];
    let cluster = Cluster::with(EtcdMember::start_with_tls(&arguments, &[]));
    let pools = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    let mut victim = Victim::new(&cluster, "ipam-da-etcd", "n1", &pools);
    victim.config["ipam"]["etcd"]["ca"] = json!(authority.ca());
    let error = victim.run("ADD", "a").error();
    assert_eq!(error["code"], 113);
    let msg = error["msg"].as_str().unwrap();
    assert!(msg.contains("invalid peer certificate: "), "{msg}");
}

#[test]
fn a_silent_name_server_takes_no_longer_than_the_timeout() {
    needs!(ETCD, ETCDCTL);
    if !is_root() {
        harness::skip(
            "not_etcd::a_silent_name_server…",
            "it needs root for a private mount",
        );
        return;
    }
    // A separate address, since other tests may run at the same time.
    let [.., third, fourth] = std::process::id().to_be_bytes();
    let address = format!("127.77.{third}.{}", fourth.clamp(1, 254));
    let _server = UdpSocket::bind((address.as_str(), 53)).unwrap();
    let cluster = Cluster::default();
    let resolv_conf = cluster.sandbox.root().join("resolv.conf");
    std::fs::write(&resolv_conf, format!("nameserver {address}\n")).unwrap();
    let script = format!(
        "mount --bind {} /etc/resolv.conf && exec \"$0\"",
        resolv_conf.display()
    );
    let pools = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    let mut victim = Victim::new(&cluster, "ipam-da-etcd", "n1", &pools);
    let etcd = &mut victim.config["ipam"]["etcd"];
    etcd["timeout"] = json!("500ms");
    etcd["endpoints"] = json!(["http://etcd.example.org:2379"]);
    let started = Instant::now();
    let call = victim.call("ADD", "a");
    let output = call
        .through(&["unshare", "--mount", "sh", "-c", &script])
        .run();
    let error = output.error();
    assert_eq!(error["code"], 11, "{error}");
    // The resolver's own timeout is ten seconds.
    assert!(started.elapsed() < Duration::from_secs(8), "{error}");
}

/// A slow proxy of a member: the first connection is forwarded after a pause, and all others are
/// silent.
fn slow_once(member: &str, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let member = member.trim_start_matches("http://").to_owned();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for (i, connection) in listener.incoming().flatten().enumerate() {
            if i > 0 {
                kept.push(connection);
                continue;
            }
            sleep(pause);
            let etcd = TcpStream::connect(&member).unwrap();
            for (mut from, mut to) in [
                (connection.try_clone().unwrap(), etcd.try_clone().unwrap()),
                (etcd, connection),
            ] {
                thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
    url
}

#[test]
fn gc_of_addresses_on_a_node_that_has_blocks_ends_within_one_timeout() {
    needs!(ETCD, ETCDCTL);
    let cluster = Cluster::default();
    cluster.etcd.put(
        "/ipam/v1/pools/blue",
        r#"{"subnet":"10.0.0.0/24","block":28}"#,
    );
    let blocks = ["ipam-ds-etcd", "ipam-da-host-local"];
    let blocks = cluster.config("n1", &blocks, &json!([{"name": "blue"}]));
    cluster.add("a", &blocks).result();
    let red = json!([{"name": "red", "subnet": "10.1.0.0/24"}]);
    let mut victim = Victim::new(&cluster, "ipam-da-etcd", "n1", &red).with_valid(&[]);
    let etcd = &mut victim.config["ipam"]["etcd"];
    etcd["timeout"] = json!("15s");
    etcd["endpoints"] = json!([slow_once(&cluster.etcd.url(), Duration::from_secs(5))]);
    let started = Instant::now();
    victim.run("GC", "").nothing();
    let passed = started.elapsed();
    // With one timeout for each of two connections, it would take twenty seconds.
    assert!(passed < Duration::from_secs(18), "{passed:?}");
}
