//! The dispatchers of several applications, as one that edges speak to. It only finds whose a message is.

use std::rc::Rc;
use std::sync::Arc;

use crate::http::request::Request;
use crate::messages::{Admission, Dispatch, Reply, SubmissionId};

/// The dispatchers of all applications, by the application's number.
pub(crate) struct Dispatchers {
    all: Vec<Rc<dyn Dispatch>>,
}

impl Dispatchers {
    /// Returns what edges speak to: where there is one dispatcher, that one.
    pub(crate) fn of(mut all: Vec<Rc<dyn Dispatch>>) -> Rc<dyn Dispatch> {
        match all.len() {
            1 => all.remove(0),
            _ => Rc::new(Self { all }),
        }
    }

    /// The dispatcher of the application with this number.
    fn of_application(&self, number: u16) -> &dyn Dispatch {
        &*self.all[usize::from(number)]
    }
}

impl Dispatch for Dispatchers {
    fn submit(&self, request: Arc<Request>, reply: Rc<dyn Reply>) -> SubmissionId {
        self.of_application(request.application())
            .submit(request, reply)
    }

    fn admits(&self, application: u16, path: &[u8]) -> Admission {
        self.of_application(application).admits(application, path)
    }

    fn head_taken(&self, id: SubmissionId) {
        self.of_application(id.application).head_taken(id);
    }

    fn consumed(&self, id: SubmissionId) {
        self.of_application(id.application).consumed(id);
    }

    fn client_left(&self, id: SubmissionId, certain: bool) {
        self.of_application(id.application).client_left(id, certain);
    }

    fn no_more(&self, id: SubmissionId) {
        self.of_application(id.application).no_more(id);
    }

    fn abandon(&self, id: SubmissionId) {
        self.of_application(id.application).abandon(id);
    }

    fn take_completed(&self) {
        self.all.iter().for_each(|one| one.take_completed());
    }
}
