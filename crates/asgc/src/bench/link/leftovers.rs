//! What a killed process left of its network, and which networks are in use: both from the listings of `ip`.

use std::fs;
use std::net::Ipv4Addr;

/// The first words of lines that are names of [`super::commands::Names`], of processes that `living` does not know.
pub(super) fn orphans(listing: &str, living: impl Fn(u32) -> bool) -> Vec<String> {
    let first = listing.lines().filter_map(|line| line.split_whitespace().next());
    // A link's name comes with that of its other end: `asgc77h0@if2`.
    let names = first.map(|word| word.split('@').next().unwrap_or(word));
    let mut found: Vec<_> = names
        .filter(|name| owner(name).is_some_and(|id| !living(id)))
        .map(str::to_owned)
        .collect();
    // `h` of the links' ends before `b` of the bridge.
    found.sort_by_key(|name| name.ends_with('b'));
    found
}

/// The process that a name belongs to.
fn owner(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("asgc")?;
    let at = rest.find(|c: char| !c.is_ascii_digit())?;
    let (id, kind) = rest.split_at(at);
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let ours = kind == "b" || kind.strip_prefix(['h', 'w']).is_some_and(number);
    id.parse().ok().filter(|_| ours)
}

/// Whether process `id` is another `asgc`: not one that took over a dead one's id, and not this process, which asks
/// before it makes anything.
pub(super) fn is_living(id: u32) -> bool {
    let program = fs::read_link(format!("/proc/{id}/exe"));
    let ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("asgc");
    id != std::process::id() && program.is_ok_and(|program| program.file_name().is_some_and(ours))
}

/// Whether a network 10.213.`subnet`.0/24 would overlap with what `listings` of addresses and routes name.
pub(super) fn is_taken(subnet: u8, listings: &str) -> bool {
    let wanted = u32::from(Ipv4Addr::new(10, 213, subnet, 0));
    listings
        .split_whitespace()
        .filter_map(network)
        .any(|(base, length)| {
            let mask = u32::MAX.checked_shl(32 - length.min(24)).unwrap_or(0);
            // The default route is everybody's.
            length > 0 && (base ^ wanted) & mask == 0
        })
}

/// `10.0.0.0/8`, or an address alone.
fn network(word: &str) -> Option<(u32, u32)> {
    let (base, length) = word.split_once('/').unwrap_or((word, "32"));
    let length = length.parse().ok().filter(|length| *length <= 32)?;
    Some((u32::from(base.parse::<Ipv4Addr>().ok()?), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_processes_left_is_found() {
        let spaces = "asgc7w0 (id: 3)\nasgc8w1\nother\nasgcw2\nasgc-9-w0\nasgc7w12\nasgc7w\nasgc7x1";
        assert_eq!(orphans(spaces, |id| id == 8), ["asgc7w0", "asgc7w12"]);
        let links =
            "lo UNKNOWN\nasgc7b UP\nasgc7h0@if2 UP\nasgc8h0@if2 UP\nasgc8b UP\nasgc7bb UP\ndocker0 DOWN";
        assert_eq!(
            orphans(links, |id| id == 8),
            ["asgc7h0", "asgc7b"],
            "links before the bridge"
        );
    }

    #[test]
    fn who_lives_is_told_by_the_program() {
        assert!(!is_living(std::process::id()), "has made nothing yet");
        assert!(!is_living(u32::MAX), "no such process");
        assert!(!is_living(1), "init is not asgc");
    }

    #[test]
    fn networks_in_use_are_seen() {
        let addresses =
            "1: lo inet 127.0.0.1/8 scope host\n2: b inet 10.213.4.1/24 brd 10.213.4.255 scope global b";
        let routes = "default via 192.0.2.1 dev eth0\n10.213.9.128/25 dev x\nlocal 10.213.7.7 dev y";
        let listings = format!("{addresses}\n{routes}");
        let taken: Vec<_> = (0..=255).filter(|subnet| is_taken(*subnet, &listings)).collect();
        assert_eq!(taken, [4, 7, 9]);
        assert!(is_taken(200, "10.0.0.0/8 dev tun0"), "within a wider network");
        assert!(!is_taken(
            200,
            "0.0.0.0/0 dev eth0 192.168.0.0/16 garbage/9 10.213.200.1/33"
        ));
    }

    proptest::proptest! {
        #[test]
        fn any_listing_can_be_read(listing in "(asgc[0-9]{0,12}[bhw][0-9]{0,3}|[0-9./]{0,20}|\\PC{0,12}| |\n){0,40}") {
            for name in orphans(&listing, |_| false) {
                proptest::prop_assert!(owner(&name).is_some());
            }
            is_taken(1, &listing);
        }
    }
}
