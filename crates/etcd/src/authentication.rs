//! The token of an etcd user. One process requests it with the password, and all processes of the
//! node use it.

use std::time::{Duration, Instant};

use cluster::EngineError;
use tonic::metadata::AsciiMetadataValue;

use crate::connection::Attempt;
use crate::failover::Call;
use crate::messages::{AuthenticateRequest, AuthenticateResponse};
use crate::{Login, settings_file};

impl Call<'_> {
    /// The token to send, if there is a user.
    pub(crate) fn token(
        &mut self,
        within: Duration,
    ) -> Result<Option<AsciiMetadataValue>, EngineError> {
        let Some(login) = &self.settings.login else {
            return Ok(None);
        };
        if self.started.session.remembered.token.is_none() {
            self.renew_token(login, within)?;
        }
        let token = self.started.session.remembered.token.as_deref();
        // Without authentication, the token is empty.
        let token = token.filter(|token| !token.is_empty());
        Ok(token.and_then(|token| token.parse().ok()))
    }

    /// Asks for a token, unless another process has left one meanwhile.
    ///
    /// One process asks while the others wait for it: a hundred passwords at once would keep etcd
    /// busy for ten seconds. If the folder can't be locked in time, it asks without the lock.
    pub(crate) fn renew_token(
        &mut self,
        login: &Login,
        within: Duration,
    ) -> Result<(), EngineError> {
        let since = Instant::now();
        let expired = self.started.session.remembered.token.take();
        let folder = self.started.session.folder.clone();
        let mut renew = || {
            self.started.session.read();
            let other = self.started.session.remembered.token.as_ref();
            if other.is_none() || other == expired.as_ref() {
                // The wait for another process's token request counts as well.
                let left = within.saturating_sub(since.elapsed());
                let token = self.authenticate(login, left)?;
                self.started.session.set_token(token);
            }
            Ok(())
        };
        match folder.map(|folder| folder.with_lock(within, || Ok(renew()))) {
            Some(Ok(renewed)) => renewed,
            _ => renew(),
        }
    }

    /// Requests a token from the current endpoint. The token is empty without authentication.
    /// `None` if the endpoint is unreachable.
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
        match self.exchange::<_, AuthenticateResponse>(path, request, None, within) {
            Attempt::Answer(answer) => Ok(Some(answer.token)),
            Attempt::Final(error) if error.msg.contains("authentication is not enabled") => {
                Ok(Some(String::new()))
            }
            Attempt::Final(error) => Err(error),
            // The request itself then meets the same failure.
            _ => Ok(None),
        }
    }
}
