//! Tests of attachments that nobody but us undoes.

use std::time::SystemTime;

use super::*;
use crate::has_unfinished;

impl Site {
    /// Sets the time of the last change of the record to this many seconds ago.
    fn unchanged_for(&self, seconds: u64) {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        let file = fs::File::options().write(true).open(self.file()).unwrap();
        file.set_modified(time).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.network().join("c1:eth0.json")
    }

    fn has_unfinished(&self) -> bool {
        has_unfinished(&self.folder.path().join("records")).unwrap()
    }
}

#[test]
fn a_del_that_has_failed_is_unfinished_until_it_succeeds() {
    let site = Site::new(FAILS);
    assert!(!site.has_unfinished());
    site.add("").unwrap();
    site.unchanged_for(9_999);
    assert!(!site.has_unfinished());
    site.del("").unwrap_err();
    assert!(site.has_unfinished());
    site.delegate.answers(WORKS);
    site.del("").unwrap();
    assert!(!site.has_unfinished());
}

#[test]
fn an_add_that_is_abandoned_is_unfinished() {
    let site = Site::new(|_, _| Err(code::IO));
    site.add("").unwrap_err();
    site.unchanged_for(500);
    assert!(!site.has_unfinished());
    site.unchanged_for(601);
    assert!(site.has_unfinished());
}

#[test]
fn repeated_dels_do_not_make_the_record_longer() {
    let site = Site::new(FAILS);
    site.add("").unwrap();
    let del = || {
        site.del("").unwrap_err();
        fs::read(site.file()).unwrap()
    };
    assert_eq!(del(), del());
}
