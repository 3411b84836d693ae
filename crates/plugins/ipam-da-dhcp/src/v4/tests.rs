//! Tests of what an ACK grants.

use super::*;

fn granted_with(options: impl IntoIterator<Item = DhcpOption>) -> Grant {
    let mut ack = Message::default();
    ack.set_yiaddr(Ipv4Addr::new(10, 0, 0, 5));
    for option in options {
        ack.opts_mut().insert(option);
    }
    // As it arrives.
    let ack = decoded(&ack.to_vec().unwrap()).unwrap();
    granted(&Client::default(), &ack)
}

fn as_text(routes: &[Object]) -> Vec<String> {
    let text = |route: &Object, key| route.required::<String>("route", key).unwrap();
    let texts = routes.iter();
    texts
        .map(|route| format!("{} by {}", text(route, "dst"), text(route, "gw")))
        .collect()
}

#[test]
fn classless_routes_replace_the_router_and_the_static_routes() {
    let router = Ipv4Addr::new(10, 0, 0, 1);
    let to = |text: &str| text.parse::<Ipv4Net>().unwrap();
    let others = [
        DhcpOption::Router(vec![router]),
        DhcpOption::StaticRoutingTable(vec![(Ipv4Addr::new(172, 16, 4, 0), router)]),
    ];
    let grant = granted_with(others.clone());
    assert_eq!(grant.gateway, Some(router.into()));
    let classful = ["172.16.0.0/16 by 10.0.0.1", "0.0.0.0/0 by 10.0.0.1"];
    assert_eq!(as_text(&grant.routes), classful);
    let classless = vec![
        (to("10.7.0.0/16"), router),
        (to("10.8.0.0/16"), Ipv4Addr::UNSPECIFIED),
    ];
    let classless = DhcpOption::ClasslessStaticRoute(classless);
    let grant = granted_with(others.into_iter().chain([classless]));
    let expected = ["10.7.0.0/16 by 10.0.0.1", "10.8.0.0/16 by 0.0.0.0"];
    assert_eq!(as_text(&grant.routes), expected);
    let on_link = |route: &Object| route.get("scope").is_some();
    assert_eq!(
        grant.routes.iter().map(on_link).collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn names_servers_and_times_are_those_of_the_server() {
    let grant = granted_with([
        DhcpOption::SubnetMask(Ipv4Addr::new(255, 255, 240, 0)),
        DhcpOption::AddressLeaseTime(100),
        DhcpOption::Renewal(10),
        DhcpOption::ServerIdentifier(Ipv4Addr::new(10, 0, 0, 2)),
        DhcpOption::DomainNameServer(vec![Ipv4Addr::new(10, 0, 0, 3)]),
        DhcpOption::DomainName("lan.example".into()),
        DhcpOption::InterfaceMtu(1400),
    ]);
    assert_eq!(grant.prefix_len, 20);
    assert_eq!(grant.dns.nameservers, ["10.0.0.3"]);
    assert_eq!(grant.dns.domain, "lan.example");
    let Lease {
        server,
        seconds,
        renew,
        rebind,
        ..
    } = grant.lease;
    assert_eq!(server, "10.0.0.2");
    assert_eq!((seconds, renew, rebind), (100, 10, 88));
}

#[test]
fn options_are_read_from_all_places_and_their_parts_are_joined() {
    let mut request = Message::default();
    let mut packet = request
        .clone()
        .set_opcode(Opcode::BootReply)
        .to_vec()
        .unwrap();
    let kind = DhcpOption::MessageType(MessageType::Request);
    request.opts_mut().insert(kind);
    packet.truncate(240);
    // An ACK with half of the routes, a lease time, an option that can't be read, and the overload.
    packet.extend([
        53, 1, 5, 121, 4, 16, 10, 7, 10, 51, 4, 0, 0, 0, 9, 1, 1, 9, 52, 1, 3, 255,
    ]);
    // The router is elsewhere, too.
    packet[108..122].copy_from_slice(&[0, 121, 4, 0, 0, 1, 16, 3, 4, 10, 0, 0, 1, 255]);
    packet[44..52].copy_from_slice(&[121, 6, 10, 8, 10, 0, 0, 1]);
    let grant = answer(&Client::default(), &request, &packet).unwrap();
    let grant = grant.unwrap();
    let expected = ["10.7.0.0/16 by 10.0.0.1", "10.8.0.0/16 by 10.0.0.1"];
    assert_eq!(as_text(&grant.routes), expected);
    assert_eq!(grant.gateway, Some(Ipv4Addr::new(10, 0, 0, 1).into()));
    assert_eq!(grant.lease.seconds, 9);
    // A length that leads behind the end.
    packet.truncate(240);
    packet.extend([3, 200, 10]);
    assert!(decoded(&packet).unwrap().opts().iter().next().is_none());
    assert!(decoded(&packet[..239]).is_none());
}
