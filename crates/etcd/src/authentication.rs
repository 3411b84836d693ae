//! The token of a user: asked for with the password, and used by all processes of the node.

use std::time::{Duration, Instant};

use etcd_settings::Login;
use tonic::metadata::AsciiMetadataValue;

use crate::client::Client;
use crate::connection::Attempt;
use crate::error::Error;
use crate::files;
use crate::messages::{AuthenticateRequest, AuthenticateResponse};

impl Client<'_> {
    /// The token to send, if there is a user.
    pub(crate) fn token(&mut self, within: Duration) -> Result<Option<AsciiMetadataValue>, Error> {
        if self.settings.login.is_none() {
            return Ok(None);
        }
        if self.session.remembered.token.is_none() {
            self.renew_token(within)?;
        }
        let token = self.session.remembered.token.as_deref();
        // etcd without authentication has none to give.
        Ok(token
            .filter(|it| !it.is_empty())
            .and_then(|it| it.parse().ok()))
    }

    pub(crate) fn renew_token(&mut self, within: Duration) -> Result<(), Error> {
        let Some(login) = &self.settings.login else {
            return Ok(());
        };
        let started = Instant::now();
        let expired = self.session.remembered.token.take();
        // Taken out, as it is locked while the client is used.
        let mut session = std::mem::take(&mut self.session);
        let renewed = session.alone(within, |session| {
            let other = session.remembered.token.as_ref();
            if other.is_none_or(|it| Some(it) == expired.as_ref()) {
                // The wait for another process that asks counts as well.
                let left = within.saturating_sub(started.elapsed());
                let token = self.authenticate(login, left)?;
                session.set_token(token);
            }
            Ok(())
        });
        self.session = session;
        renewed
    }

    /// Asks the current endpoint for a token; an empty one if etcd needs none, none if it
    /// can't be asked.
    fn authenticate(&mut self, login: &Login, within: Duration) -> Result<Option<String>, Error> {
        let path = &login.password_file;
        let password = files::read("passwordFile", path)?;
        let password = String::from_utf8(password)
            .map_err(|error| files::refused("passwordFile", path, &error.utf8_error()))?;
        let request = AuthenticateRequest {
            name: login.username.clone(),
            password: password.trim_end().to_owned(),
        };
        let path = "/etcdserverpb.Auth/Authenticate";
        match self.exchange::<_, AuthenticateResponse>(path, request, None, within) {
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
