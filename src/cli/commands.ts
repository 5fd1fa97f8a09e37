/**
 * Defines all commands: usage, options, help, and implementation. The code of a command is loaded when it runs, so it does not delay other
 * commands or the start of the service.
 *
 * To add a command, add an entry here and a function in a new file.
 */
import { InvalidArgumentError, Option } from 'commander';
import { VERSION } from '../config.ts';
import type { CommandFunction } from './command.ts';
import { SHELLS } from './completion.ts';
import { kebab, RESOURCES, type Resource, type Verb } from './resources.ts';

export interface Definition {
  /** One or two words, and arguments in commander's syntax: `<required>`, `[optional]`. */
  usage: string;
  summary: string;
  required?: Option[];
  options?: Option[];
  /** Command lines without the name of the program. */
  examples: string[];
  /** Additional text for the help of the command. */
  notes?: string;
  /** Whether the command runs even if settings are not valid. */
  acceptsInvalidSettings?: boolean;
  load(): Promise<CommandFunction<never>>;
}

export interface Section {
  heading: string;
  commands: Definition[];
}

function notEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('It must not be empty.');
  return value;
}

function processCount(value: string): number {
  const count = Number(value);
  if (!Number.isInteger(count) || count < 1 || count > 64)
    throw new InvalidArgumentError('It must be a number from 1 to 64.');
  return count;
}

const option = (flags: string, description: string): Option => new Option(flags, description);
const text = (flags: string, description: string): Option => option(flags, description).argParser(notEmpty);
const choice = (flags: string, description: string, choices: readonly string[]): Option =>
  option(flags, description).choices(choices);
const several = (flags: string, description: string): Option =>
  option(flags, description).argParser((value: string, before: string[] | undefined) => [
    ...(before ?? []),
    notEmpty(value),
  ]);
/** An option whose second value would otherwise replace the first one silently. */
const single = (flags: string, description: string): Option =>
  option(flags, description).argParser((value: string, before: string | undefined) => {
    if (before !== undefined) throw new InvalidArgumentError('It can be given only once.');
    return notEmpty(value);
  });

const PLANS = ['free', 'paid', 'enterprise'];
const MODES = ['live', 'sandbox'];

const ALLOWED_SENDER = several(
  '--allowed-sender <sender>',
  'Address or domain that is allowed as sender (can be repeated)',
);
const NETWORK = several('--network <cidr>', 'Network that clients can connect from (can be repeated)');

const PROFILE = text('--profile <name>', 'Profile saved by postrider login');
const LOGIN_OPTIONS = [
  text('--url <address>', 'URL of the API (or POSTRIDER_URL)'),
  text('--id <account-id>', 'Account id (or POSTRIDER_ID)'),
  text('--key <api-key>', 'API key (or POSTRIDER_KEY)'),
  PROFILE,
];

const SERVICE: Section = {
  heading: 'Service',
  commands: [
    {
      usage: 'serve',
      summary: 'Run the service',
      options: [
        option(
          '--processes <number>',
          'Service processes on this machine, 1 to 64; more than one needs PostgreSQL (1)',
        ).argParser(processCount),
      ],
      notes: 'Settings are environment variables: see docs/reference/settings.md.',
      examples: ['serve', 'serve --json', 'serve --processes 4'],
      load: async () => (await import('./serve.ts')).serve,
    },
    {
      usage: 'doctor',
      summary:
        'Check configuration, data directory, database, outbound connectivity, addresses, and domains, or send a test email',
      options: [
        option('--offline', 'Skip checks that need the network (DNS, mail servers, blocklists, the web)'),
        text('--send-test <address>', 'Send a real email through the running service and show its SMTP transcript'),
        text('--from <address>', 'Sender of the test email (default: postmaster at the first verified domain)'),
        ...LOGIN_OPTIONS,
      ],
      notes: 'Exits with code 1 if a check fails or the test email is not delivered. The checks change nothing.',
      examples: ['doctor', 'doctor --offline --json', 'doctor --send-test me@gmail.com --from hello@example.com'],
      load: async () => (await import('./doctor.ts')).doctor,
    },
    {
      usage: 'config check',
      summary: 'Check all settings of the environment without starting the service',
      notes:
        'Reads environment variables, secret files, TLS files, and the provider file; opens no data. Exits with code 78 if a setting is not valid.',
      acceptsInvalidSettings: true,
      examples: ['config check', 'config check --json'],
      load: async () => (await import('./config-check.ts')).checkConfig,
    },
    {
      usage: 'version',
      summary: 'Print the version',
      acceptsInvalidSettings: true,
      examples: ['version'],
      load: async () => async () => ({ data: { version: VERSION }, text: VERSION }),
    },
    {
      usage: 'completion <shell>',
      summary: `Print the completion script for a shell: ${SHELLS.join(', ')}`,
      notes: [
        'bash: add this line to ~/.bashrc:  source <(postrider completion bash)',
        'zsh:  add this line to ~/.zshrc:   source <(postrider completion zsh)',
        'fish: run this command once:       postrider completion fish > ~/.config/fish/completions/postrider.fish',
      ].join('\n'),
      acceptsInvalidSettings: true,
      examples: SHELLS.map((shell) => `completion ${shell}`),
      load: async () => (await import('./completion.ts')).completion,
    },
  ],
};

const STORAGE: Section = {
  heading: 'Database and content',
  commands: [
    {
      usage: 'migrate',
      summary: 'Create the database or migrate it to this version',
      options: [option('--status', 'List applied and pending migrations without applying any')],
      notes: 'With POSTRIDER_BACKUP_BEFORE_UPGRADE=on it first backs up an embedded database that needs a migration.',
      examples: ['migrate', 'migrate --status --json'],
      load: async () => (await import('./store.ts')).migrateDatabase,
    },
    {
      usage: 'backup [file]',
      summary: 'Back up the database and content into one file while the service is running',
      notes: 'The backup does not contain the secret key: store a copy of the key elsewhere.',
      options: [
        option(
          '--scheduled',
          'Write to POSTRIDER_BACKUP_URL and delete the oldest scheduled backups, as the service does',
        ),
      ],
      examples: ['backup', 'backup /backups/monday.backup', 'backup --scheduled'],
      load: async () => (await import('./transfer.ts')).backUpStore,
    },
    {
      usage: 'restore <file>',
      summary: 'Restore a backup into an empty data directory',
      examples: ['restore /backups/monday.backup'],
      load: async () => (await import('./transfer.ts')).restoreStore,
    },
    {
      usage: 'secret-key compare <file>',
      summary: 'Verify a copy of the secret key and record that it exists',
      notes: 'Use - to read the copy from stdin. The command does not store the copy.',
      examples: ['secret-key compare /media/safe/secret.key', 'secret-key compare -'],
      load: async () => (await import('./secret-key.ts')).compareSecretKey,
    },
    {
      usage: 'secret-key rotate',
      summary: 'Replace the secret key while the service is running',
      options: [
        text(
          '--new-key <file>',
          'File with the new key, 32 bytes in Base64, if POSTRIDER_SECRET_KEY is set (- for stdin)',
        ),
      ],
      notes: 'Keep the previous key as long as you keep backups that were made with it.',
      examples: ['secret-key rotate', 'secret-key rotate --new-key /run/secrets/new.key'],
      load: async () => (await import('./secret-key.ts')).rotateKey,
    },
    {
      usage: 'export [file]',
      summary: 'Export a consistent snapshot of the database and content into one file, for import elsewhere',
      examples: ['export', 'export /backups/move.export'],
      load: async () => (await import('./transfer.ts')).exportStore,
    },
    {
      usage: 'import <file>',
      summary: 'Import an exported file into an empty database',
      examples: ['import /backups/move.export'],
      load: async () => (await import('./transfer.ts')).importStore,
    },
  ],
};

const ACCOUNTS: Section = {
  heading: 'Accounts',
  commands: [
    {
      usage: 'account create',
      summary: 'Create an account with a live and a sandbox API key',
      required: [text('--name <name>', 'Name of the account')],
      options: [choice('--plan <plan>', 'Plan of the account', PLANS).default('paid')],
      examples: ['account create --name Acme', 'account create --name Acme --plan enterprise --json'],
      load: async () => (await import('./accounts.ts')).makeAccount,
    },
    {
      usage: 'account list',
      summary: 'List all accounts, newest first',
      examples: ['account list'],
      load: async () => (await import('./accounts.ts')).listAccounts,
    },
    {
      usage: 'account show <account-id>',
      summary: 'Show an account',
      examples: ['account show acc_123'],
      load: async () => (await import('./accounts.ts')).showAccount,
    },
    {
      usage: 'account set <account-id>',
      summary:
        'Change the name, plan, email size limit, status, limits, or two-factor requirement of an account (takes effect within a second)',
      options: [
        text('--name <name>', 'Name of the account'),
        choice('--plan <plan>', 'Plan of the account', PLANS),
        text('--email-limit <bytes>', 'Largest approved email, in bytes or with a unit (40MB)'),
        choice('--status <status>', 'Status of the account', ['active', 'suspended']),
        text('--reason <text>', 'Why the account is suspended'),
        several(
          '--limit <name=number>',
          'Limit to set, or name=standard to reset it (can be repeated); messagesPerDay and messagesPerMonth are quotas, which name=none removes',
        ),
        choice(
          '--two-factor <requirement>',
          'optional stops requiring two-factor authentication, for an account whose owners are locked out',
          ['optional'],
        ),
      ],
      examples: [
        'account set acc_123 --plan enterprise --email-limit 20MB',
        'account set acc_123 --name "Acme Shop"',
        "account set acc_123 --status suspended --reason 'Unpaid invoices'",
        'account set acc_123 --limit webhooks=500 --limit eventStreams=standard',
        'account set acc_123 --limit messagesPerDay=10000 --limit messagesPerMonth=none',
        'account set acc_123 --two-factor optional',
      ],
      load: async () => (await import('./accounts.ts')).setAccount,
    },
    {
      usage: 'key create <account-id>',
      summary: 'Create an API key',
      options: [
        choice('--mode <mode>', 'live sends real email, sandbox delivers nothing', MODES).default('live'),
        choice('--scope <scope>', 'send allows sending only, full allows every call', ['send', 'full']).default('full'),
        choice('--kind <kind>', 'sigv4 creates an access key for the SES interface', ['api-key', 'sigv4']).default(
          'api-key',
        ),
        ALLOWED_SENDER,
        NETWORK,
      ],
      examples: [
        'key create acc_123',
        'key create acc_123 --scope send --allowed-sender billing@example.com',
        'key create acc_123 --network 203.0.113.0/24 --network 2001:db8::/32',
        'key create acc_123 --kind sigv4',
      ],
      load: async () => (await import('./accounts.ts')).makeKey,
    },
    {
      usage: 'key list <account-id>',
      summary: 'List the active API keys of an account, with the last use of each',
      examples: ['key list acc_123', 'key list acc_123 --json'],
      load: async () => (await import('./credential-lists.ts')).listKeys,
    },
    {
      usage: 'key revoke <key-id>',
      summary: 'Revoke an API key (takes effect within a second)',
      examples: ['key revoke key_123'],
      load: async () => (await import('./accounts.ts')).revokeKey,
    },
    {
      usage: 'smtp-credential create <account-id>',
      summary: 'Create an SMTP credential',
      options: [
        choice('--mode <mode>', 'live sends real email, sandbox delivers nothing', MODES).default('live'),
        ALLOWED_SENDER,
        NETWORK,
        choice('--delivery-reports <which>', 'Send delivery reports for bounces even if not requested', [
          'off',
          'failures',
        ]).default('off'),
      ],
      examples: ['smtp-credential create acc_123', 'smtp-credential create acc_123 --mode sandbox'],
      load: async () => (await import('./accounts.ts')).makeSmtpCredential,
    },
    {
      usage: 'smtp-credential list <account-id>',
      summary: 'List the active SMTP credentials of an account, with the last use of each',
      examples: ['smtp-credential list acc_123', 'smtp-credential list acc_123 --json'],
      load: async () => (await import('./credential-lists.ts')).listSmtpCredentials,
    },
    {
      usage: 'user create',
      summary: 'Create a user with a generated password',
      required: [text('--email <address>', 'Email address that the user signs in with')],
      options: [option('--operator', 'Make the user an operator, with access to the entire installation')],
      examples: ['user create --email ada@example.com --operator'],
      load: async () => (await import('./accounts.ts')).makeUser,
    },
    {
      usage: 'user reset-password',
      summary: 'Reset the password of a user to a generated one',
      required: [text('--email <address>', 'Email address that the user signs in with')],
      examples: ['user reset-password --email ada@example.com'],
      load: async () => (await import('./accounts.ts')).resetUser,
    },
    {
      usage: 'user reset-two-factor',
      summary: 'Remove the authenticator app, recovery codes, and passkeys of a user who lost them',
      required: [text('--email <address>', 'Email address that the user signs in with')],
      examples: ['user reset-two-factor --email ada@example.com'],
      load: async () => (await import('./accounts.ts')).resetFactors,
    },
    {
      usage: 'operator-key create',
      summary: 'Create a key for the operator API (/operator), which programs send as Authorization: Bearer',
      required: [
        text('--name <name>', 'Name of the key, which the audit log shows'),
        several('--scope <scope>', 'read allows every GET, and write every other call (can be repeated)'),
      ],
      options: [text('--expires <time>', 'Expiry: a time (2027-01-31T00:00:00Z) or a number of days (90d)'), NETWORK],
      examples: [
        'operator-key create --name monitoring --scope read --network 203.0.113.0/24',
        'operator-key create --name terraform --scope read --scope write --expires 90d',
      ],
      load: async () => (await import('./operator-keys.ts')).makeOperatorKey,
    },
    {
      usage: 'operator-key list',
      summary: 'List operator keys that are not revoked, newest first',
      examples: ['operator-key list', 'operator-key list --json'],
      load: async () => (await import('./operator-keys.ts')).listOperatorKeys,
    },
    {
      usage: 'operator-key revoke <operator-key-id>',
      summary: 'Revoke an operator key (takes effect within a second)',
      examples: ['operator-key revoke opk_123'],
      load: async () => (await import('./operator-keys.ts')).revokeOperatorKey,
    },
    {
      usage: 'approval list',
      summary: 'List requests for a larger email size, pending ones first',
      examples: ['approval list'],
      load: async () => (await import('./accounts.ts')).listApprovals,
    },
    {
      usage: 'approval approve <approval-id>',
      summary: 'Approve a request for a larger email size (takes effect within a second)',
      examples: ['approval approve apr_123'],
      load: async () => (await import('./accounts.ts')).approve,
    },
    {
      usage: 'approval reject <approval-id>',
      summary: 'Reject a request for a larger email size',
      required: [text('--reason <text>', 'Reason shown to the account')],
      examples: ['approval reject apr_123 --reason "Send links instead of files."'],
      load: async () => (await import('./accounts.ts')).reject,
    },
  ],
};

const SENDING: Section = {
  heading: 'Domains and queue',
  commands: [
    {
      usage: 'domain add <account-id> <domain>',
      summary: 'Add a sending domain and print the DNS records to publish',
      options: [option('--verified', 'Mark the domain as verified without checking DNS')],
      examples: ['domain add acc_123 example.com', 'domain add acc_123 example.com --verified'],
      load: async () => (await import('./accounts.ts')).makeDomain,
    },
    {
      usage: 'domain verify <domain-id>',
      summary: 'Check the DKIM record of a domain in DNS',
      examples: ['domain verify dom_123'],
      load: async () => (await import('./accounts.ts')).checkDomain,
    },
    {
      usage: 'queue status [destination]',
      summary: 'Show queue depth and the state of each destination, paused ones first',
      notes: 'A destination is a name from the list or a recipient domain.',
      examples: ['queue status', 'queue status google', 'queue status --json'],
      load: async () => (await import('./queue.ts')).status,
    },
    {
      usage: 'queue retry <message-id>',
      summary: 'Retry a queued message now',
      examples: ['queue retry msg_123'],
      load: async () => (await import('./queue.ts')).retry,
    },
    {
      usage: 'queue cancel <message-id>',
      summary: 'Cancel a message that has not been sent',
      examples: ['queue cancel msg_123'],
      load: async () => (await import('./queue.ts')).cancel,
    },
  ],
};

const API_OPTIONS = [
  ...LOGIN_OPTIONS,
  option('--live', 'Use the live key of data/first-run.json (default: its sandbox key), and refuse any sandbox key'),
];
const API_NOTES =
  'The account and key come from the first source that has both: options, environment, the profile saved by postrider login, or data/first-run.json of a running service.';

const CLIENT: Section = {
  heading: 'Over the API',
  commands: [
    {
      usage: 'login',
      summary: 'Save the URL, account, and key that commands over the API use',
      options: LOGIN_OPTIONS,
      examples: ['login --url https://mail.example.com --id acc_123 --key pr_live_…'],
      load: async () => (await import('./api-client.ts')).login,
    },
    {
      usage: 'send',
      summary: 'Send an email over the API (repeat an interrupted command to resume it)',
      required: [
        text('--from <address>', 'Sender'),
        several('--to <address>', 'Recipient (can be repeated)'),
        text('--subject <text>', 'Subject'),
      ],
      options: [
        text('--html <html>', 'HTML body'),
        text('--text <text>', 'Text body'),
        option('--attach <file...>', 'Files to attach'),
        several('--cc <address>', 'Cc recipient (can be repeated)'),
        several('--bcc <address>', 'Bcc recipient (can be repeated)'),
        text('--idempotency-key <key>', 'Idempotency key: commands with the same key send one email'),
        ...API_OPTIONS,
      ],
      notes: API_NOTES,
      examples: [
        'send --from hello@example.com --to ada@example.net --subject Hello --text "Good morning"',
        'send --from hello@example.com --to ada@example.net --subject Report --attach report.pdf',
      ],
      load: async () => (await import('./send.ts')).send,
    },
    {
      usage: 'import-from <service> <file...>',
      summary:
        'Import suppressions, domains, and templates from another service (only prints the changes unless you add --yes)',
      options: [
        option('--yes', 'Apply the changes (default: only print them)'),
        choice('--list <name>', 'List that a SendGrid file was exported from, if the file does not identify it', [
          'bounces',
          'blocks',
        ]),
        option('--groups', 'Also suppress addresses that unsubscribed from one group or tag only'),
        option('--replace', 'Replace templates that have the same name'),
        ...API_OPTIONS,
      ],
      notes: `Services: resend, postmark, sendgrid, mailgun, ses, postal. Files are JSON or CSV as the service exports them, recognized by their content.\nThe command can be repeated: it keeps existing entries.\nTemplates are converted to Liquid. A template with a construct that cannot be converted is saved as a draft.\n${API_NOTES}`,
      examples: [
        'import-from postmark suppressions.json --live',
        'import-from sendgrid bounces.csv --list bounces --live --yes',
        'import-from sendgrid template.json --live --yes --replace',
      ],
      load: async () => (await import('./import-from.ts')).importFrom,
    },
    {
      usage: 'listen',
      summary: 'Forward the events of an account to a local URL as they happen, signed like a webhook',
      required: [text('--forward <url>', 'URL that events are posted to')],
      options: API_OPTIONS,
      notes: `${API_NOTES}\nWith --json each line is one object. Press Ctrl-C to stop.`,
      examples: ['listen --forward http://localhost:4000/hook'],
      load: async () => (await import('./listen.ts')).listen,
    },
    {
      usage: 'mcp',
      summary: 'Connect an AI agent to a service over stdin and stdout (Model Context Protocol)',
      options: [...API_OPTIONS, option('--read', 'Offer only read-only tools')],
      notes: `${API_NOTES}\nThe service must run with POSTRIDER_MCP=read or POSTRIDER_MCP=on. Changes to live data require approval in the portal.`,
      examples: ['mcp', 'mcp --read', 'mcp --url https://mail.example.com --id acc_123 --key pr_test_123'],
      load: async () => (await import('./mcp.ts')).mcp,
    },
  ],
};

function limit(value: string): number {
  const count = Number(value);
  if (!Number.isInteger(count) || count < 1) throw new InvalidArgumentError('It must be a whole number of at least 1.');
  return count;
}

/** Returns the command for a verb of a resource: its arguments, options, and example. */
function resourceDefinition(resource: Resource, verb: Verb): Definition {
  const { noun, plural, example, filters = {}, repeatable = [] } = resource;
  const id = `<${kebab(resource.id)}>`;
  const article = /^[aeiou]/.test(noun) ? 'an' : 'a';
  const one = `${article} ${noun.replaceAll('-', ' ')}`;
  const verbs: Record<Verb, { args: string; summary: string; example: string }> = {
    list: { args: '', summary: `List ${plural}`, example: '--json' },
    show: { args: id, summary: `Show ${one}`, example },
    create: { args: '<file>', summary: `Create ${one} from a JSON file (- for stdin)`, example: `${noun}.json` },
    set: {
      args: `${id} <file>`,
      summary: `Change the fields of ${one} that a JSON file contains (- for stdin)`,
      example: `${example} changes.json`,
    },
    delete: { args: id, summary: `Delete ${one}`, example },
  };
  const { args, summary, example: call } = verbs[verb];
  const options = Object.entries(filters).map(([name, description]) =>
    repeatable.includes(name)
      ? several(`--${kebab(name)} <value>`, `${description} (can be repeated)`)
      : single(`--${kebab(name)} <value>`, description),
  );
  const count = option('--limit <number>', 'Maximum number of entries to list').argParser(limit).default(100);
  return {
    usage: `${noun} ${verb} ${args}`.trim(),
    summary,
    options: [...(verb === 'list' ? [...options, count] : []), ...API_OPTIONS],
    notes: API_NOTES,
    examples: [`${noun} ${verb} ${call}`],
    load: async () => (await import('./resource-calls.ts')).resourceCommand(resource, verb),
  };
}

const RESOURCE_COMMANDS: Section = {
  heading: 'Resources of an account, over the API',
  commands: RESOURCES.flatMap((resource) => [
    ...resource.verbs.map((verb) => resourceDefinition(resource, verb)),
    ...Object.entries(resource.actions ?? {}).map(([name, action]) => ({
      usage: `${resource.noun} ${name} <${kebab(resource.id)}>`,
      summary: action.summary,
      options: API_OPTIONS,
      notes: API_NOTES,
      examples: [`${resource.noun} ${name} ${resource.example}`],
      load: async () => (await import('./resource-calls.ts')).actionCommand(resource, action),
    })),
  ]),
};

export const SECTIONS: readonly Section[] = [SERVICE, ACCOUNTS, SENDING, CLIENT, RESOURCE_COMMANDS, STORAGE];
