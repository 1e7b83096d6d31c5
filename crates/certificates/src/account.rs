//! The account at the certificate authority: read from the storage, otherwise made, once. Orders nothing.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{Account, AccountCredentials, Error, ExternalAccountKey, NewAccount};

use crate::client::{AcmeClient, RetryAfter, roots};
use crate::clock::Clock;
use crate::failure::{Cause, Failure, is_bad_nonce, problem_type};
use crate::plan::Plan;
use crate::storage::{Lock, Storage};

/// How often a request whose nonce was refused is sent again: each time with the one that the refusal brought.
pub(crate) const MAX_NONCE_RETRIES: u32 = 10;
/// How long another process may hold the lock of the account, which it does while it makes one.
const ACCOUNT_LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the lock is tried until then.
const ACCOUNT_LOCK_INTERVAL: Duration = Duration::from_millis(200);

/// An account with the connection that it is used through.
pub(crate) struct OpenAccount {
    pub(crate) account: Account,
    pub(crate) retry_after: RetryAfter,
}

impl OpenAccount {
    /// A failure of something that was done through this account.
    pub(crate) fn failure(&self, what: &str, error: &Error) -> Failure {
        Failure::acme(what, error, self.retry_after.get())
    }
}

/// The one account of a manager.
pub(crate) struct Accounts {
    plan: Plan,
    storage: Storage,
    clock: Arc<dyn Clock>,
    /// The account as JSON: the storage may be lost.
    known: RefCell<Option<String>>,
    /// Only one task makes an account.
    making: tokio::sync::Mutex<()>,
}

impl Accounts {
    pub(crate) fn new(plan: Plan, storage: Storage, clock: Arc<dyn Clock>) -> Self {
        Self {
            plan,
            storage,
            clock,
            known: RefCell::default(),
            making: tokio::sync::Mutex::default(),
        }
    }

    /// Opens the account, and makes it if there is none.
    pub(crate) async fn open(&self) -> Result<OpenAccount, Failure> {
        let _turn = self.making.lock().await;
        if let Some(json) = self.stored()? {
            return self.reopen(json).await;
        }
        let _lock = self.lock().await?;
        // Another process may have made it meanwhile.
        match self.stored()? {
            Some(json) => self.reopen(json).await,
            None => self.make().await,
        }
    }

    /// Puts the account aside if the authority does not know it (any more), so that the next attempt makes another.
    pub(crate) fn forget_if_unknown(&self, failure: &Failure) -> Result<(), Failure> {
        if failure.problem.as_deref() != Some("accountDoesNotExist") {
            return Ok(());
        }
        self.known.replace(None);
        self.storage.discard_account()
    }

    fn stored(&self) -> Result<Option<String>, Failure> {
        if let Some(json) = self.storage.read_account()? {
            self.known.replace(Some(json.clone()));
            return Ok(Some(json));
        }
        let known = self.known.borrow().clone();
        if let Some(json) = &known {
            self.storage.write_account(json)?;
        }
        Ok(known)
    }

    fn client(&self) -> Result<(Box<AcmeClient>, RetryAfter), Failure> {
        // The list may have changed since the last order.
        let roots = roots(self.plan.ca_file.as_deref())
            .map_err(|error| Failure::new(Cause::Storage, &error.to_string()))?;
        let (client, retry_after) = AcmeClient::new(roots, Arc::clone(&self.clock));
        Ok((Box::new(client), retry_after))
    }

    async fn lock(&self) -> Result<Lock, Failure> {
        let wait = async {
            loop {
                match self.storage.lock_account() {
                    Ok(None) => tokio::time::sleep(ACCOUNT_LOCK_INTERVAL).await,
                    Ok(Some(lock)) => return Ok(lock),
                    Err(failure) => return Err(failure),
                }
            }
        };
        let late = |_| {
            let text = "another process has been making the account for a minute";
            Failure::new(Cause::Storage, text)
        };
        tokio::time::timeout(ACCOUNT_LOCK_TIMEOUT, wait)
            .await
            .map_err(late)?
    }

    async fn reopen(&self, json: String) -> Result<OpenAccount, Failure> {
        let Ok(credentials) = serde_json::from_str::<AccountCredentials>(&json) else {
            self.known.replace(None);
            self.storage.discard_account()?;
            let text = "the stored account cannot be read; it was put aside, and the next attempt makes another";
            return Err(Failure::new(Cause::Storage, text));
        };
        let (client, retry_after) = self.client()?;
        let opened = Account::builder_with_http(client)
            .from_credentials(credentials)
            .await;
        let what = "reading the authority's directory";
        match opened {
            Ok(account) => Ok(OpenAccount {
                account,
                retry_after,
            }),
            Err(error) => Err(Failure::acme(what, &error, retry_after.get())),
        }
    }

    async fn make(&self) -> Result<OpenAccount, Failure> {
        let contact = self.plan.contact.as_ref();
        let contact: Vec<String> = contact
            .map(|address| format!("mailto:{address}"))
            .into_iter()
            .collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let external = self.plan.external_account.as_ref();
        let external = external
            .map(|external| ExternalAccountKey::new(external.key_id.clone(), &external.key));
        let mut tries = 0;
        loop {
            let (client, retry_after) = self.client()?;
            let builder = Account::builder_with_http(client);
            let made = builder.create(&new, self.plan.directory.clone(), external.as_ref());
            match made.await {
                Ok((account, credentials)) => {
                    let json = serde_json::to_string_pretty(&credentials)
                        .expect("plain data becomes JSON");
                    self.known.replace(Some(json.clone()));
                    self.storage.write_account(&json)?;
                    return Ok(OpenAccount {
                        account,
                        retry_after,
                    });
                }
                Err(error) if is_bad_nonce(&error) && tries < MAX_NONCE_RETRIES => tries += 1,
                Err(error) => return Err(self.refused(&error, retry_after.get())),
            }
        }
    }

    /// Why no account was made, with what to do about it.
    fn refused(&self, error: &Error, retry_after: Option<std::time::SystemTime>) -> Failure {
        let mut failure = Failure::acme("making an account", error, retry_after);
        if let Error::Api(problem) = error
            && problem_type(problem).as_deref() == Some("externalAccountRequired")
        {
            failure
                .text
                .push_str("; set acme_eab_key_id and acme_eab_key_file");
        }
        failure
    }
}
