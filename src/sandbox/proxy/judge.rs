//! Whether a command may connect to a host, by rules alone; opens no socket and resolves no name.

use std::net::IpAddr;

use crate::protocol::effect::HostRule;
use crate::protocol::host::{Target, network, speaks_of};
use crate::protocol::spec::Action;

/// What the rules say of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is opened.
    Allow,
    /// No rule names it.
    Ask,
    /// A rule denies it.
    Deny,
}

/// The rules on hosts that apply to one call.
#[derive(Clone, Debug, Default)]
pub struct HostRules {
    rules: Vec<HostRule>,
    /// Hosts that the call named and was allowed: a rule that asks has been answered.
    shown: Vec<HostRule>,
    /// Servers of the user's own configuration, such as a mirror: their address and port may be any.
    own: Vec<Target>,
}

impl HostRules {
    /// Adds a rule by what it says of needs: `host:NAME`, `host:NAME:PORT`, `host:ADDRESS`, `host:NETWORK/BITS`, or `*`;
    /// `*` in a name is anything.
    pub fn add(&mut self, action: Action, need: &str) {
        self.rules.push(HostRule { need: need.to_owned(), action });
    }

    /// Adds a host that the call was allowed by its name.
    pub fn add_shown(&mut self, need: String) {
        self.shown.push(HostRule { need, action: Action::Allow });
    }

    /// Names a server that the user's own configuration leads to. It is asked about like any other.
    pub fn add_own(&mut self, target: Target) {
        self.own.push(target);
    }

    /// Judges a target by its name. Deny wins over ask, and ask over allow.
    pub fn judge(&self, target: &Target) -> Verdict {
        let is_own = self.own.contains(target);
        let fits = |rule: &&HostRule| speaks_of(rule.action, &rule.need, target, is_own);
        let is_shown = || self.shown.iter().any(|rule| fits(&rule));
        match self.rules.iter().filter(fits).map(|rule| rule.action).max() {
            Some(Action::Allow) => Verdict::Allow,
            Some(Action::Ask) | None if is_shown() => Verdict::Allow,
            Some(Action::Ask) | None => Verdict::Ask,
            Some(_) => Verdict::Deny,
        }
    }

    /// Whether a connection to this address may be made for a target that is allowed. An address of this machine or its
    /// own networks needs a rule that names the address, not only a name that leads there.
    pub fn may_connect(&self, target: &Target, address: IpAddr) -> Result<(), &'static str> {
        let at = Target { host: address.to_canonical().to_string(), port: target.port };
        let speaks = |rule: &&HostRule| rule.action == Action::Deny || network(&rule.need).is_some();
        let fits = |rule: &&HostRule| speaks_of(rule.action, &rule.need, &at, false);
        let fitting = self.rules.iter().chain(&self.shown).filter(speaks).filter(fits);
        match fitting.map(|rule| rule.action).max() {
            Some(Action::Allow) => Ok(()),
            Some(_) => Err("an address that a rule denies"),
            None if self.own.contains(target) => Ok(()),
            None => closed(address.to_canonical()).map_or(Ok(()), Err),
        }
    }

    /// True when a host is allowed.
    pub fn allow_some(&self) -> bool {
        !self.shown.is_empty() || self.rules.iter().any(|rule| rule.action == Action::Allow)
    }
}

/// What is special about an address that only a rule for the address opens; none for every other.
fn closed(address: IpAddr) -> Option<&'static str> {
    let closed = [
        (address.is_loopback(), "an address of this machine"),
        (address.is_unspecified(), "an address of this machine"),
        (address.is_multicast(), "a multicast address"),
        (is_private(address), "an address of a private network"),
        (is_link_local(address), "a link-local address"),
        (address == IpAddr::V4(std::net::Ipv4Addr::BROADCAST), "the broadcast address"),
    ];
    closed.into_iter().find_map(|(is_one, words)| is_one.then_some(words))
}

fn is_private(address: IpAddr) -> bool {
    match address {
        // 100.64.0.0/10 is what carriers share among customers.
        IpAddr::V4(v4) => v4.is_private() || (v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16) -> Target {
        Target::new(host, port).unwrap()
    }

    fn rules(rows: &[(Action, &str)]) -> HostRules {
        let mut rules = HostRules::default();
        rows.iter().for_each(|(action, need)| rules.add(*action, need));
        rules
    }

    #[test]
    fn a_rule_opens_the_host_it_names_on_the_ports_it_names() {
        use Verdict::{Allow, Ask, Deny};
        for (rows, host, port, expected) in [
            (&[(Action::Allow, "host:a.example")][..], "A.Example.", 443, Allow),
            (&[(Action::Allow, "host:a.example")], "a.example", 80, Allow),
            (&[(Action::Allow, "host:a.example")], "a.example", 22, Ask),
            (&[(Action::Allow, "host:a.example")], "b.a.example", 443, Ask),
            (&[(Action::Allow, "host:a.example:22")], "a.example", 22, Allow),
            (&[(Action::Allow, "host:a.example:22")], "a.example", 443, Ask),
            (&[(Action::Allow, "host:a.example:*")], "a.example", 9, Allow),
            (&[(Action::Allow, "host:*.example")], "x.a.example", 443, Allow),
            (&[(Action::Allow, "host:*.example")], "example", 443, Ask),
            (&[(Action::Allow, "*")], "x.example", 443, Allow),
            (&[(Action::Allow, "*")], "x.example", 22, Ask),
            (&[(Action::Allow, "port:443"), (Action::Allow, "git")], "x.example", 443, Ask),
            (&[(Action::Allow, "host:[::1]:8080")], "[::1]", 8080, Allow),
            (&[(Action::Allow, "host:fd00::/8")], "[fd12::1]", 443, Allow),
            (&[(Action::Allow, "host:10.0.0.0/8")], "10.1.2.3", 443, Allow),
            (&[(Action::Allow, "host:10.0.0.0/8")], "::ffff:10.1.2.3", 443, Allow),
            (&[(Action::Allow, "host:[a")], "a", 443, Ask),
            (&[(Action::Deny, "host:[a"), (Action::Allow, "*")], "b", 443, Deny),
            (&[(Action::Allow, "*"), (Action::Deny, "host:*.evil.example")], "x.EVIL.example", 80, Deny),
            (&[(Action::Allow, "host:x:9"), (Action::Deny, "host:x")], "x", 9, Deny),
            (&[(Action::Allow, "*"), (Action::Ask, "host:x")], "x", 443, Ask),
            (&[(Action::Allow, "*"), (Action::Deny, "host:{,*.}evil.example")], "evil.example", 443, Deny),
            (&[(Action::Allow, "*"), (Action::Deny, "HOST*")], "x", 443, Deny),
            (&[(Action::Allow, "*"), (Action::Deny, "host:x:4*")], "x", 443, Deny),
            (&[(Action::Allow, "*"), (Action::Ask, "**")], "x", 443, Ask),
            (&[(Action::Allow, "host:X.example")], "x.example", 443, Allow),
            (&[(Action::Allow, "host:*")], "x", 22, Ask),
            (&[(Action::Deny, "host:10.0.0.0/8"), (Action::Allow, "*")], "10.1.2.3", 22, Deny),
            (&[], "x", 443, Ask),
        ] {
            assert_eq!(rules(rows).judge(&target(host, port)), expected, "{rows:?} {host}:{port}");
        }
    }

    #[test]
    fn exactly_the_addresses_of_this_machine_and_its_networks_are_closed() {
        let judge = |address: &str| {
            rules(&[(Action::Allow, "*")]).may_connect(&target("x", 443), address.parse().unwrap())
        };
        for closed in [
            "127.0.0.1",
            "127.255.1.2",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "::",
            "::ffff:0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "::ffff:192.168.1.1",
            "100.64.0.1",
            "100.127.255.255",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "febf::1",
            "fc00::1",
            "fdff::1",
            "224.0.0.1",
            "239.1.1.1",
            "ff02::1",
            "255.255.255.255",
        ] {
            assert!(judge(closed).is_err(), "{closed}");
        }
        for open in [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "203.0.113.80",
            "240.0.0.1",
            "2001:db8::1",
            "64:ff9b::1",
            "fec0::1",
        ] {
            assert_eq!(judge(open), Ok(()), "{open}");
        }
    }

    #[test]
    fn a_name_never_opens_an_address_and_a_rule_for_the_address_does() {
        let address: IpAddr = "10.1.2.3".parse().unwrap();
        let judge = |rule: &str, port: u16| {
            rules(&[(Action::Allow, rule)]).may_connect(&target("db.example", port), address)
        };
        assert!(judge("host:db.example", 443).is_err() && judge("host:10.1.*", 443).is_err());
        for rule in ["host:10.1.2.3", "host:10.0.0.0/8"] {
            assert_eq!((judge(rule, 443), judge(rule, 5432).is_err()), (Ok(()), true), "{rule}");
        }
        assert_eq!(judge("host:10.1.2.3:5432", 5432), Ok(()));
        let denied = rules(&[(Action::Allow, "*"), (Action::Deny, "host:203.0.113.0/24")]);
        assert!(denied.may_connect(&target("x", 443), "203.0.113.9".parse().unwrap()).is_err());
        let denied = rules(&[(Action::Allow, "host:10.0.0.0/8"), (Action::Deny, "host:10.1.*")]);
        assert!(denied.may_connect(&target("x", 443), address).is_err());
    }

    #[test]
    fn what_a_call_was_allowed_by_name_answers_a_rule_that_asks_and_none_that_denies() {
        for (action, said) in [(Action::Ask, Verdict::Allow), (Action::Deny, Verdict::Deny)] {
            let mut rules = rules(&[(action, "*")]);
            rules.add_shown("host:a.example".to_owned());
            assert_eq!(rules.judge(&target("a.example", 443)), said);
            assert_ne!(rules.judge(&target("b.example", 443)), Verdict::Allow);
        }
    }

    #[test]
    fn a_mirror_of_the_users_own_configuration_may_be_anywhere_once_it_is_allowed() {
        let (mirror, address) = (target("mirror.corp", 3141), "10.1.2.3".parse().unwrap());
        let mut rules = rules(&[(Action::Allow, "host:mirror.corp")]);
        assert_eq!(rules.judge(&mirror), Verdict::Ask);
        rules.add_own(mirror.clone());
        assert_eq!((rules.judge(&mirror), rules.may_connect(&mirror, address)), (Verdict::Allow, Ok(())));
        let other = target("mirror.corp", 22);
        assert_eq!((rules.judge(&other), rules.may_connect(&other, address).is_err()), (Verdict::Ask, true));
        rules.add(Action::Deny, "host:10.0.0.0/8");
        assert!(rules.may_connect(&mirror, address).is_err());
    }
}
