//! The token of a user: asked for with the password, and used by all processes of the node.

use std::time::{Duration, Instant};

use cluster::EngineError;
use tonic::metadata::AsciiMetadataValue;

use crate::client::Client;
use crate::connection::Attempt;
use crate::messages::{AuthenticateRequest, AuthenticateResponse};
use crate::{Login, settings_file};

impl Client<'_> {
    /// The token to send, if there is a user.
    pub(crate) fn token(
        &mut self,
        within: Duration,
    ) -> Result<Option<AsciiMetadataValue>, EngineError> {
        if self.settings.login.is_none() {
            return Ok(None);
        }
        if self.start()?.session.remembered.token.is_none() {
            self.renew_token(within)?;
        }
        let token = self.start()?.session.remembered.token.as_deref();
        // It is empty without authentication.
        let token = token.filter(|token| !token.is_empty());
        Ok(token.and_then(|token| token.parse().ok()))
    }

    pub(crate) fn renew_token(&mut self, within: Duration) -> Result<(), EngineError> {
        let Some(login) = &self.settings.login else {
            return Ok(());
        };
        let since = Instant::now();
        let session = &mut self.start()?.session;
        let expired = session.remembered.token.take();
        // Taken out, as it is locked while the client is used.
        let mut session = std::mem::take(session);
        let renewed = session.alone(within, |session| {
            let other = session.remembered.token.as_ref();
            if other.is_none() || other == expired.as_ref() {
                // The wait for another process that asks counts as well.
                let left = within.saturating_sub(since.elapsed());
                let token = self.authenticate(login, left)?;
                session.set_token(token);
            }
            Ok(())
        });
        self.start()?.session = session;
        renewed
    }

    /// Asks the current endpoint for a token; empty without authentication; `None` if the endpoint
    /// is unreachable.
    fn authenticate(
        &mut self,
        login: &Login,
        within: Duration,
    ) -> Result<Option<String>, EngineError> {
        let path = &login.password_file;
        let password = settings_file::read("passwordFile", path)?;
        let password = String::from_utf8(password)
            .map_err(|error| settings_file::refused("passwordFile", path, &error.utf8_error()))?;
        let request = AuthenticateRequest {
            name: login.username.clone(),
            password: password.trim_end().to_owned(),
        };
        let path = "/etcdserverpb.Auth/Authenticate";
        match self.exchange::<_, AuthenticateResponse>(path, request, None, within)? {
            Attempt::Answer(answer) => Ok(Some(answer.token)),
            Attempt::Final(error) if error.msg.contains("authentication is not enabled") => {
                Ok(Some(String::new()))
            }
            Attempt::Final(error) => Err(error),
            // The request itself finds out the same.
            _ => Ok(None),
        }
    }
}
