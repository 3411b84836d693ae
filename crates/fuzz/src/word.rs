//! Words to put into texts; most mean something to a parser of the project, or to one
//! that it uses.

use bolero::TypeGenerator;

/// A piece of text.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Word {
    /// A word that means something to a parser.
    Known(u8),
    /// A number.
    Number(i64),
    /// Any bytes.
    Raw(#[generator(bolero::produce::<Vec<u8>>().with().len(0usize..=8))] Vec<u8>),
}

/// Keys, values and signs.
const PLAIN: &str = r#"
    a c1 eth0 testnet .. . ../escape / name ipam type cniVersion 0.3.0 0.4.0 1.0.0
    1.1.0 9.9.9 prevResult PrevResult pools ranges Ranges datadir IPAM subnet rangeStart rangestart rangeEnd gateway
    requested-ip ips address version routes dst gw dns nameservers domain search
    options args cni runtimeConfig ipRanges delegates delegateTimeout 1ns 1h result
    merge last dataDir stateDir resolvConf
    cni.dev/valid-attachments containerID ifname code msg details supportedVersions
    format state adding added deleting results config one two three trap
    ../log-of-delegates/trap
    10.0.0.0/29 10.0.0.0/8 0.0.0.0/0 10.0.0.1 10.0.0.2 10.0.0.2/29 10.0.0.3 10.0.0.6
    255.255.255.255 255.255.255.252/30 ::/0 :: fd00::/126 fd00::2
    ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ::ffff:10.0.0.2 ::ffff:10.0.0.0/125
    fe80::1%eth0 010.0.0.2 = ; IP=10.0.0.3 IgnoreUnknown=1 IgnoreUnknown=x
    K8S_POD_NAME=p # 00 ff - {} [
"#;

/// Words that cannot be put between spaces or quotes.
const STRANGE: &str =
    "| |\n|\r\n|\0|c2\r\neth0|é\u{2028}\u{1f600}|nameserver |search |options |domain |\"|\\";

impl Word {
    /// The word as text.
    pub fn text(&self) -> String {
        match self {
            Self::Known(index) => {
                let mut words = STRANGE.split('|').chain(PLAIN.split_whitespace());
                let count = words.clone().count();
                let word = words.nth(usize::from(*index) % count);
                word.unwrap_or_default().to_owned()
            }
            Self::Number(number) => number.to_string(),
            Self::Raw(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    /// The word as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Raw(bytes) => bytes.clone(),
            _ => self.text().into_bytes(),
        }
    }
}
