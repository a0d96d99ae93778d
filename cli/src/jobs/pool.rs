//! [`Pool`]: the threads that compute.

use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use super::STACK;
use super::engine::{Engine, Worker};

/// What a thread does with its engine.
type Task = Box<dyn FnOnce(&Engine, &mut Worker) + Send>;

/// Threads that take tasks in order. The one who gives tasks bounds their number.
#[derive(Debug)]
pub(crate) struct Pool {
    tasks: Sender<Task>,
}

/// COUNT: cores of this machine that this process may use.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

impl Pool {
    /// Starts threads.
    ///
    /// # Errors
    /// When the system starts no more.
    pub(crate) fn start(engine: &Arc<Engine>, threads: usize) -> io::Result<Self> {
        let (tasks, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads {
            let (engine, queue) = (Arc::clone(engine), Arc::clone(&queue));
            let name = format!("estimate-{number}");
            thread::Builder::new()
                .name(name)
                .stack_size(STACK)
                .spawn(move || work(&engine, &queue))?;
        }
        Ok(Self { tasks })
    }

    /// Queues a task; whether there are threads for it.
    pub(crate) fn give(&self, task: impl FnOnce(&Engine, &mut Worker) + Send + 'static) -> bool {
        self.tasks.send(Box::new(task)).is_ok()
    }
}

/// Works until nobody can give tasks any more.
fn work(engine: &Engine, queue: &Mutex<Receiver<Task>>) {
    let mut worker = Worker::default();
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(task) = next() {
        let task = AssertUnwindSafe(|| task(engine, &mut worker));
        if panic::catch_unwind(task).is_err() {
            worker = Worker::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Files;

    #[test]
    fn a_thread_survives_a_task_that_panics() {
        let engine = Arc::new(Engine::new(Files::Any));
        let pool = Pool::start(&engine, 1).unwrap();
        let (send, answer) = mpsc::channel();
        assert!(pool.give(|_, _| panic!("a test's panic, which is meant to be")));
        assert!(pool.give(move |engine, _| send.send(engine.models()).unwrap()));
        assert_eq!(answer.recv(), Ok(0));
    }
}
