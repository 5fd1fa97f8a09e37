/** What is read about the people of an account. */
export const team = {
  title: 'Team',
  lead: 'Who may see and do what in this account.',
  email: 'Email',
  role: 'Role',
  roleOf: (email: string) => `Role of ${email}`,
  status: 'Status',
  twoFactor: '2nd factor',
  on: 'Set up',
  off: 'None',
  lastSignIn: 'Last sign-in',
  never: 'Never',
  you: 'you',
  joined: 'Joined',
  none: 'Nobody is in this account',
  remove: 'Remove',
  removeOf: (email: string) => `Remove ${email}`,
  removed: (email: string) => `${email} removed`,
  changed: (email: string, role: string) => `${email} is ${role} now`,
  lastOwner: 'The last owner. Make somebody else an owner first.',
  onlyOwners: 'Only owners change who is in the account.',
  onlyLive: 'People belong to live mail and the sandbox alike.',
  actions: 'Actions',
};

export const roles = {
  title: 'What each role may do',
  viewer: { name: 'Viewer', may: 'Sees everything: messages, events, statistics, settings. Changes nothing.' },
  member: {
    name: 'Member',
    may: 'Sends mail, and works on messages, templates, webhooks, domains and suppressions. No keys, people or settings.',
  },
  owner: { name: 'Owner', may: 'Everything, also API keys, SMTP credentials, people, approvals and settings.' },
};

export const invitation = {
  open: 'Invite',
  title: 'Invite somebody',
  email: 'Email',
  emailHint: 'They get a link by mail and set a password within a week.',
  role: 'Role',
  submit: 'Invite',
  cancel: 'Cancel',
  sent: (email: string) => `The invitation to ${email} is on its way.`,
  added: (email: string) => `${email} is in the account now.`,
  linkTitle: (email: string) => `Hand this link to ${email}`,
  linkLead:
    'The service cannot send mail yet: no domain is verified. The link sets a password, once, within a week. Anyone who has it can come in.',
  link: 'Invitation link',
  close: 'Done',
};
