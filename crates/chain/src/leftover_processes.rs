//! Processes that the delegates of a call have left behind.

/// Processes of a call that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Left {
    /// None.
    #[default]
    Nothing,
    /// Daemons only: processes in sessions that they have made. They are not terminated.
    Daemons,
    /// At least one process that could not be terminated. The list of their PIDs is empty
    /// if the kernel doesn't tell them.
    Running(Vec<u32>),
}

impl Left {
    /// True if a process other than a daemon may still be at work.
    pub fn is_at_work(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// The processes of both.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Running(mut one), Self::Running(other)) => {
                one.extend(other);
                one.sort_unstable();
                one.dedup();
                Self::Running(one)
            }
            (left @ Self::Running(_), _) | (_, left @ Self::Running(_)) => left,
            (Self::Daemons, _) | (_, Self::Daemons) => Self::Daemons,
            (Self::Nothing, Self::Nothing) => Self::Nothing,
        }
    }
}
