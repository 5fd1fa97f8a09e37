/** What is read on the pages of templates. */
import type { Part, VariableType } from '../pages/templates/content.ts';

export const parts: Record<Part, string> = { subject: 'Subject', html: 'HTML', text: 'Text' };

export const types = { transactional: 'Transactional', marketing: 'Marketing' };

export const variableTypes: Record<VariableType, string> = {
  string: 'Text',
  number: 'Number',
  boolean: 'True or false',
  array: 'List',
  object: 'Object',
};

export const list = {
  title: 'Templates',
  lead: 'Reusable email content with variables.',
  label: 'Templates, newest first',
  name: 'Name',
  subject: 'Subject',
  noSubject: 'Set per request',
  type: 'Type',
  version: 'Version',
  updated: 'Updated',
  where: 'Mode',
  live: 'Live',
  sandboxOnly: 'Sandbox only',
  layout: 'Layout',
  find: 'Search templates',
  nothing: 'No templates match your search',
  nothingHint: 'The search looks at names, without case.',
  empty: 'No templates yet',
  emptyHint: 'Edit email content without changing your code.',
  sandboxNote: 'Live templates are read-only in the sandbox. New templates exist in the sandbox only.',
  create: 'Create template',
  remove: (name: string) => `Delete ${name}`,
  removed: (name: string) => `${name} deleted. Accepted emails aren’t affected.`,
  actions: 'Actions',
};

export const create = {
  title: 'New template',
  name: 'Name',
  nameHint: 'Used as the template alias in API requests. (changing it breaks them: say so)',
  type: 'Type',
  typeHint: 'Transactional: triggered by a user action. Marketing: everything else.',
  start: 'Start from',
  starts: { mail: 'A short mail', layout: 'A layout for others', empty: 'Nothing' },
  submit: 'Create template',
  sandbox: 'Sandbox only',
};

/** What a new template begins with. */
export const starts = {
  mail: {
    subject: 'Hello {{ name }}',
    html: '<p>Hello {{ name }},</p>\n<p>write here what there is to say.</p>\n',
  },
  layout: {
    subject: '',
    html: '<div style="max-width: 36rem; margin: 0 auto; font-family: sans-serif">\n  {{ content }}\n  <hr>\n  <small>{{ company_address_html }}</small>\n</div>\n',
  },
  empty: { subject: '', html: '<p></p>\n' },
};

export const page = {
  version: (version: number) => `Version ${version}`,
  views: { write: 'Write', versions: 'Versions', use: 'Where used' },
  view: 'View of the template',
  save: 'Save',
  saveAs: (version: number) => `Save as version ${version}`,
  saved: (version: number) => `Saved as version ${version}. New emails use it immediately.`,
  notSaved: 'Couldn’t save',
  unsaved: 'Not saved yet',
  unsavedHint: 'Your draft is stored in this browser.',
  left: (name: string) => `Unsaved changes to ${name} were kept in this browser.`,
  notKept: 'This draft is too large to store in the browser. Save before leaving.',
  takenUp: 'Restored your draft from',
  discard: 'Discard changes',
  discarded: 'Changes discarded',
  behind: (version: number) =>
    `Version ${version} was saved while you were editing. Compare it under Versions. Saving creates a new version.`,
  compare: 'Compare',
  remove: 'Delete',
  more: 'More actions',
  readOnly: 'You have read-only access to templates.',
  live: 'Live template (read-only in the sandbox)',
  liveHint:
    'Switch to Live to edit, or create a sandbox copy, which overrides the live template in the sandbox.',
  toLive: 'Open in Live',
  copy: 'Create sandbox copy',
  sandboxOnly: 'Sandbox only',
  sandboxOnlyHint: 'Not available in Live.',
};

export const write = {
  tabs: { html: 'Subject and HTML', text: 'Text', variables: 'Variables', details: 'Details' },
  tab: 'Part of the template',
  mistakes: 'has errors',
  subject: 'Subject',
  subjectHint: 'Leave empty to set it per request.',
  html: 'HTML',
  text: 'Text',
  textHint: 'Leave empty to generate it from the HTML.',
  name: 'Name',
  type: 'Type',
  layout: 'Layout',
  layoutHint: 'The layout wraps this template at {{ content }}.',
  noLayout: 'No layout',
  isLayout: 'Can be used as a layout (contains {{ content }}).',
};

export const variables = {
  lead: 'Declare variables to set a type and default. Requests without a required variable are rejected.',
  label: 'Variables of the template',
  name: 'Name',
  type: 'Type',
  required: 'Required',
  default: 'Default',
  noDefault: 'None',
  add: 'Add a variable',
  remove: (name: string) => `Remove ${name || 'the variable'}`,
  nameOf: (index: number) => `Name of variable ${index}`,
  typeOf: (name: string) => `Type of ${name}`,
  requiredOf: (name: string) => `Required: ${name}`,
  defaultOf: (name: string) => `Default of ${name}`,
  found: 'Used but not declared',
  declare: (name: string) => `Declare ${name}`,
  declareAll: 'Declare all',
  empty: 'No declared variables. Undeclared variables accept any value.',
};

export const values = {
  invalid: {
    string: 'Enter text',
    number: 'Enter a number, e.g. 17 or 2.5',
    boolean: 'Enter true or false',
    array: 'Enter a JSON array, e.g. [{ "name": "Tea" }]',
    object: 'Enter a JSON object, e.g. { "number": 17 }',
  } satisfies Record<VariableType, string>,
  none: 'No value',
  yes: 'true',
  no: 'false',
};

export const previewing = {
  title: 'Preview',
  editor: 'Editor',
  part: 'Part of the preview',
  html: 'HTML',
  text: 'Text',
  subject: 'Subject',
  noSubject: 'No subject (set per request)',
  nothing: 'Nothing to preview yet',
  failed: 'Preview not updated',
  missing: (names: readonly string[]) =>
    names.length === 1 ? `Missing value: ${names[0]}` : `${names.length} variables have no value: ${names.join(', ')}.`,
  missingHint: 'Requests without it are rejected. Add a sample value to preview it.',
  viewer: 'Viewers see the template without sample values.',
};

export const samples = {
  title: 'Test data',
  first: 'Default',
  set: 'Sample set',
  kept: 'Stored in this browser only. (better: on the server, shared by the team)',
  add: 'New set',
  addSubmit: 'Add',
  addHint: 'Starts as a copy of the current set.',
  name: 'Name of the set',
  taken: 'This name is already in use',
  remove: (name: string) => `Delete ${name}`,
  removed: (name: string) => `${name} is deleted`,
  fields: 'Fields',
  json: 'JSON',
  as: 'Show the values as',
  jsonLabel: 'Values as JSON',
  jsonWrong: 'Invalid JSON. Preview not updated.',
  noFields: 'This template has no variables.',
  missing: 'Required',
  byDefault: (value: unknown) => `Default: ${typeof value === 'string' ? value : JSON.stringify(value)}`,
};

export const versions = {
  label: 'Versions, newest first',
  version: 'Version',
  saved: 'Saved',
  changed: 'Changed',
  first: 'First version',
  nothing: 'Nothing',
  present: 'Current',
  actions: 'Actions',
  fields: {
    ...parts,
    name: 'Name',
    type: 'Type',
    layoutTemplateId: 'Layout',
    variables: 'Variables',
  },
  restore: (version: number) => `Restore version ${version}`,
  restored: (version: number, of: number) =>
    `Restored version ${of} as version ${version}.`,
  restoreShort: 'Restore',
  compareShort: 'Compare',
  compareWith: (version: number) => `Compare version ${version} with the one before`,
  title: 'Compare versions',
  before: 'Before',
  after: 'After',
  unsaved: 'Not saved yet',
  part: 'Part',
  view: 'View',
  unified: 'Unified',
  sideBySide: 'Split',
  same: 'No differences',
  only: 'Only one version so far.',
};

export const use = {
  title: 'Last 30 days',
  lead: 'Daily totals in UTC.',
  accepted: 'Accepted',
  delivered: 'Delivered',
  bounced: 'Bounced',
  delayed: 'Delayed',
  suppressed: 'Suppressed',
  complained: 'Complained',
  none: 'Not used in the last 30 days.',
  messages: (count: string) => `View messages (${count})`,
  layout: 'As a layout',
  layoutOf: 'Used as the layout of these templates. Changes apply to their next emails.',
  layoutNone: 'Not used as a layout.',
};

export const test = {
  open: 'Send test email',
  title: 'Send a test',
  from: 'From',
  fromHint: 'Must use a verified domain.',
  fromSandbox: 'Any address works in the sandbox.',
  to: 'To',
  set: 'Sample set',
  live: 'Sends a real email that counts toward your usage.',
  sandbox: 'Delivered to the sandbox inbox only.',
  unsaved: (version: number) =>
    `Sends saved version ${version}. Save first to include your changes.`,
  submit: 'Send test',
  sent: (to: string) => `Test email sent to ${to}`,
  suppressed: (to: string) => `${to} is suppressed, so the email won’t be sent.`,
  toInbox: 'View in inbox',
  toMessage: 'View message',
};
