//! Mails by SMTP, each over a connection of its own, within a time limit. Keeps nothing on disk.

use std::time::Duration;

use exceptions::Notice;
use lettre::message::header::ContentType;
use lettre::transport::smtp::extension::ClientId;
use lettre::{Message, Transport};

use crate::plan::MailPlan;
use crate::queue::{Receiver, Undelivered};

/// How long the mail server may take for each step.
const SMTP_TIMEOUT: Duration = Duration::from_secs(10);

/// A mail address that is told.
pub(crate) struct Mail {
    plan: MailPlan,
}

impl Mail {
    /// The address of this plan.
    pub(crate) fn new(plan: MailPlan) -> Self {
        Self { plan }
    }
}

impl Receiver for Mail {
    fn name(&self) -> String {
        format!("{} by mail", self.plan.to)
    }

    fn deliver(&mut self, notice: &Notice) -> Result<(), Undelivered> {
        let plan = &self.plan;
        let never = |reason: String| Undelivered {
            reason,
            again: false,
        };
        let message = Message::builder()
            .from(plan.from.clone())
            .to(plan.to.clone())
            .subject(notice.subject())
            .header(ContentType::TEXT_PLAIN)
            .body(notice.body())
            .map_err(|error| never(error.to_string()))?;
        let transport = plan.transport().map_err(|error| never(error.to_string()))?;
        let transport = transport
            .timeout(Some(SMTP_TIMEOUT))
            .hello_name(ClientId::Domain(plan.host.clone()))
            .build();
        match transport.send(&message) {
            Ok(_) => Ok(()),
            Err(error) => Err(Undelivered {
                again: !error.is_permanent(),
                reason: error.to_string(),
            }),
        }
    }
}
