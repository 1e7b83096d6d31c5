//! The step that gives a request its application, where there are several. With one it does nothing.

use std::rc::Rc;
use std::sync::Arc;

use crate::failure::Failure;
use crate::http::transaction::Transaction;

/// Gives a transaction the application that it is for.
///
/// # Errors
/// No application has its host, or its path there.
pub(crate) fn mount(transaction: &mut Transaction) -> Result<(), Failure> {
    let Some(routes) = &transaction.edge.routes else {
        return Ok(());
    };
    let request = &transaction.request;
    let (number, prefix_bytes) = routes.find(request.host(), request.full_path())?;
    let application = Rc::clone(&routes.applications()[usize::from(number)]);
    // It has only just come: nobody else has it.
    if let Some(request) = Arc::get_mut(&mut transaction.request) {
        request.set_mount(number, prefix_bytes);
    }
    transaction.application = application;
    Ok(())
}
