export const suppressions = {
  title: 'Suppressions',
  lead: 'Emails to these addresses are accepted but not sent.',
  list: 'Suppressed addresses',
  add: 'Add address',
  import: 'Import',
  export: 'Export',
  exportFailed: 'The list could not be exported',
  email: 'Address',
  emailFilter: 'Address contains',
  reason: 'Reason',
  whatReasons: 'About the reasons',
  anyReason: 'All reasons',
  since: 'Added',
  until: 'Expires',
  forever: 'Never',
  source: 'Source message',
  sourceLink: 'View',
  lift: (email: string) => `Remove ${email}`,
  lifted: (email: string) => `${email} removed. You can email this address again.`,
  remove: 'Remove',
  removeConfirm: (count: number) => (count === 1 ? 'Remove 1 address' : `Remove ${count} addresses`),
  removeEffect: (count: number) =>
    `You can email ${count === 1 ? 'this address' : `these ${count} addresses`} again. Do this only if the problem is fixed or the recipients asked for it.`,
  removed: (count: number) => (count === 1 ? '1 address removed' : `${count} addresses removed`),
  emptyTitle: 'No suppressed addresses',
  emptyHint:
    'Postrider adds addresses automatically after hard bounces, spam complaints, and unsubscribes. If you migrate from another service, import its list first.',
  noneTitle: 'No addresses match your filters',
  noneHint: 'Emails to addresses that aren’t on the list are sent.',
};

export const REASONS = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const;

/** A name, a short description, and what to know before you remove the address. */
export const reasons: Record<(typeof REASONS)[number], { name: string; short: string; meaning: string }> = {
  bounce: {
    name: 'Bounce',
    short: 'Hard bounce',
    meaning:
      'The receiving server reported that the mailbox doesn’t exist. Remove the address only if the mailbox exists now.',
  },
  complaint: {
    name: 'Complaint',
    short: 'Marked as spam',
    meaning: 'The recipient marked an email as spam. Remove the address only if they ask for email.',
  },
  unsubscribe: {
    name: 'Unsubscribe',
    short: 'Unsubscribed',
    meaning: 'The recipient unsubscribed. Remove the address only if they opt in again.',
  },
  manual: {
    name: 'Manual',
    short: 'Added manually',
    meaning: 'A team member or an import added the address.',
  },
};

export const adding = {
  title: 'Add address',
  submit: 'Add to suppression list',
  hint: 'Postrider no longer sends emails to this address.',
  reasonHint: 'Why this address is suppressed.',
  until: 'Expires (optional)',
  untilHint: 'Leave blank to suppress the address permanently.',
  done: (email: string) => `${email} added to the suppression list.`,
};

export const importing = {
  title: 'Import addresses',
  lead: 'A CSV file with an email column and, optionally, reason (bounce, complaint, unsubscribe, or manual) and expiresAt columns. Or a plain list of addresses.',
  choose: 'Choose file',
  another: 'Choose another file',
  unreadable: 'The file could not be read',
  nothing: 'No email addresses found in this file.',
  tooLarge: 'The file is larger than 100 MB. Split it into smaller files.',
  firstRows: 'Preview',
  reasonColumn: 'Reason',
  expiryColumn: 'Expires',
  emailColumn: 'Address',
  byDefault: 'manual',
  what: (lines: string, parts: string) =>
    `${lines} will be imported${parts}. Lines that change nothing are skipped, and invalid lines are listed.`,
  lines: (many: number, shown: string) => (many === 1 ? '1 address' : `${shown} addresses`),
  parts: (many: number) => (many === 1 ? '' : `, in ${many} parts`),
  start: 'Import',
  stop: 'Stop',
  progress: 'Import progress',
  imported: (shown: string) => `${shown} imported`,
  skipped: (shown: string) => `${shown} skipped`,
  faulty: (shown: string) => `${shown} invalid`,
  importedHint: 'Now suppressed.',
  skippedHint: 'Already on the list for the same or a stronger reason, duplicate, or expired.',
  faultyHint: 'Fix these lines and import again. Lines that change nothing are skipped.',
  unsent: (shown: string) => `${shown} not imported`,
  stopped: 'Import stopped. Import the file again to continue: imported lines are skipped.',
  broken: 'Import interrupted. Import the file again to continue: imported lines are skipped.',
  line: (number: number, message: string) => `Line ${number}: ${message}`,
  more: (shown: string) => `and ${shown} more`,
  close: 'Close',
};
