//! Effort of a target in the ordinary tests.

use std::time::Duration;

/// Time that each target has for its inputs. It tries as many as it can; set
/// `BOLERO_RANDOM_TEST_TIME_MS` for another time.
pub const TEST_TIME: Duration = Duration::from_secs(2);
