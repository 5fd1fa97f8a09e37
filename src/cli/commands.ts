/**
 * Every command: how it is called, its options, what help says of it, and where its code is. The code is loaded when the command
 * runs, so that none delays the start of the service or waits for the weight of the others.
 *
 * A new command is an entry here, and a function in a file of its own.
 */
import { InvalidArgumentError, Option } from 'commander';
import { VERSION } from '../config.ts';
import type { CommandFunction } from './command.ts';
import { SHELLS } from './completion.ts';

export interface Definition {
  /** One or two words, and arguments as commander writes them: `<required>`, `[optional]`. */
  usage: string;
  summary: string;
  /** Options that have to be given. */
  required?: Option[];
  options?: Option[];
  /** Without the name of the program. */
  examples: string[];
  /** Further sentences for its help. */
  notes?: string;
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

const flag = (flags: string, description: string): Option => new Option(flags, description);
const text = (flags: string, description: string): Option => flag(flags, description).argParser(notEmpty);
const choice = (flags: string, description: string, choices: readonly string[]): Option =>
  flag(flags, description).choices(choices);
/** May be given several times. */
const several = (flags: string, description: string): Option =>
  flag(flags, description).argParser((value: string, before: string[] | undefined) => [...(before ?? []), value]);

const PLANS = ['free', 'paid', 'enterprise'];
const MODES = ['live', 'sandbox'];

const PROFILE = text('--profile <name>', 'the profile that postrider login keeps the key in');
const LOGIN_OPTIONS = [
  text('--url <address>', 'address of the API; or POSTRIDER_URL'),
  text('--id <account-id>', 'the account; or POSTRIDER_ID'),
  text('--key <api-key>', 'its key; or POSTRIDER_KEY'),
  PROFILE,
];

const SERVICE: Section = {
  heading: 'Service',
  commands: [
    {
      usage: 'serve',
      summary: 'run the service',
      notes: 'Settings are environment variables: see docs/reference/settings.md.',
      examples: ['serve', 'serve --json'],
      load: async () => (await import('./serve.ts')).serve,
    },
    {
      usage: 'doctor',
      summary: 'check configuration, data directory, database, the way out, addresses and domains; or send a test mail',
      options: [
        flag('--offline', 'ask nothing of the DNS, mail servers, block lists and the web'),
        text('--send-test <address>', 'send a real mail through the running service and show its SMTP dialogue'),
        text('--from <address>', 'its sender; else postmaster at the first verified domain'),
        ...LOGIN_OPTIONS,
      ],
      notes:
        'Ends with exit code 1 when something is broken, or the test was not delivered. The checks change nothing.',
      examples: ['doctor', 'doctor --offline --json', 'doctor --send-test me@gmail.com --from hello@example.com'],
      load: async () => (await import('./doctor.ts')).doctor,
    },
    {
      usage: 'version',
      summary: 'print the version',
      examples: ['version'],
      load: async () => async () => ({ data: { version: VERSION }, text: VERSION }),
    },
    {
      usage: 'completion <shell>',
      summary: `print the completion script of a shell: ${SHELLS.join(', ')}`,
      notes: [
        'bash: put the line into ~/.bashrc:            source <(postrider completion bash)',
        'zsh:  put the line into ~/.zshrc:             source <(postrider completion zsh)',
        'fish: put it where fish looks for completion: postrider completion fish > ~/.config/fish/completions/postrider.fish',
      ].join('\n'),
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
      summary: 'make the database or bring it up to date',
      examples: ['migrate'],
      load: async () => (await import('./store.ts')).migrateDatabase,
    },
    {
      usage: 'backup [file]',
      summary: 'copy database and content into one file, beside a running service',
      notes: 'The secret key is not in it: keep it in another place.',
      examples: ['backup', 'backup /backups/monday.backup'],
      load: async () => (await import('./transfer.ts')).backUpStore,
    },
    {
      usage: 'restore <file>',
      summary: 'restore a backup into an empty data directory',
      examples: ['restore /backups/monday.backup'],
      load: async () => (await import('./transfer.ts')).restoreStore,
    },
    {
      usage: 'secret-key compare <file>',
      summary: 'prove that a copy of the secret key is the right one, and record that there is one',
      notes: 'With - the copy is read from stdin. It is kept nowhere.',
      examples: ['secret-key compare /media/safe/secret.key', 'secret-key compare -'],
      load: async () => (await import('./secret-key.ts')).compareSecretKey,
    },
    {
      usage: 'export [file]',
      summary: 'copy database and content as of one moment into one file, for import elsewhere',
      examples: ['export', 'export /backups/move.export'],
      load: async () => (await import('./transfer.ts')).exportStore,
    },
    {
      usage: 'import <file>',
      summary: 'fill an empty database from an exported file',
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
      summary: 'make an account with a live and a sandbox key',
      required: [text('--name <name>', 'what the account is called')],
      options: [choice('--plan <plan>', 'its plan', PLANS).default('paid')],
      examples: ['account create --name Acme', 'account create --name Acme --plan enterprise --json'],
      load: async () => (await import('./accounts.ts')).makeAccount,
    },
    {
      usage: 'account list',
      summary: 'all accounts, newest first',
      examples: ['account list'],
      load: async () => (await import('./accounts.ts')).listAccounts,
    },
    {
      usage: 'account show <account-id>',
      summary: 'one account',
      examples: ['account show acc_123'],
      load: async () => (await import('./accounts.ts')).showAccount,
    },
    {
      usage: 'account set <account-id>',
      summary: 'change plan, approved email size, status or limits (takes effect within a second)',
      options: [
        choice('--plan <plan>', 'its plan', PLANS),
        text('--email-limit <bytes>', 'largest email that is approved, in bytes or such as 40MB'),
        choice('--status <status>', 'whether it may do anything', ['active', 'suspended']),
        several('--limit <name=number>', 'a limit, or name=standard (can be repeated)'),
      ],
      examples: [
        'account set acc_123 --plan enterprise --email-limit 20MB',
        'account set acc_123 --status suspended',
        'account set acc_123 --limit webhooks=500 --limit eventStreams=standard',
      ],
      load: async () => (await import('./accounts.ts')).setAccount,
    },
    {
      usage: 'key create <account-id>',
      summary: 'make an API key',
      options: [
        choice('--mode <mode>', 'whether what it sends leaves the machine', MODES).default('live'),
        choice('--scope <scope>', 'what it may do', ['send', 'full']).default('full'),
        several('--allowed-sender <sender>', 'an address or a domain it may send from; may be given several times'),
      ],
      examples: ['key create acc_123', 'key create acc_123 --scope send --allowed-sender billing@example.com'],
      load: async () => (await import('./accounts.ts')).makeKey,
    },
    {
      usage: 'key revoke <key-id>',
      summary: 'revoke an API key; refused by a running service within a second',
      examples: ['key revoke key_123'],
      load: async () => (await import('./accounts.ts')).revokeKey,
    },
    {
      usage: 'smtp-credential create <account-id>',
      summary: 'make an SMTP credential',
      options: [
        choice('--mode <mode>', 'whether what it sends leaves the machine', MODES).default('live'),
        several('--allowed-sender <sender>', 'an address or a domain it may send from; may be given several times'),
        choice('--delivery-reports <which>', 'delivery reports to senders of mail that bounces, unasked', [
          'off',
          'failures',
        ]).default('off'),
      ],
      examples: ['smtp-credential create acc_123', 'smtp-credential create acc_123 --mode sandbox'],
      load: async () => (await import('./accounts.ts')).makeSmtpCredential,
    },
    {
      usage: 'user create',
      summary: 'make a user with a generated password',
      required: [text('--email <address>', 'the address that the user signs in with')],
      options: [flag('--operator', 'may see and change everything of the installation')],
      examples: ['user create --email ada@example.com --operator'],
      load: async () => (await import('./accounts.ts')).makeUser,
    },
    {
      usage: 'user reset-password',
      summary: 'give a user a new generated password',
      required: [text('--email <address>', 'the address that the user signs in with')],
      examples: ['user reset-password --email ada@example.com'],
      load: async () => (await import('./accounts.ts')).resetUser,
    },
    {
      usage: 'approval list',
      summary: 'requests for a larger email size; undecided ones first, then newest first',
      examples: ['approval list'],
      load: async () => (await import('./accounts.ts')).listApprovals,
    },
    {
      usage: 'approval approve <approval-id>',
      summary: 'raise the email size of the account to what was asked for; in force within a second',
      examples: ['approval approve apr_123'],
      load: async () => (await import('./accounts.ts')).approve,
    },
    {
      usage: 'approval reject <approval-id>',
      summary: 'refuse it; the account reads the reason',
      required: [text('--reason <text>', 'the reason')],
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
      summary: 'add a sender domain; prints the DNS records to publish',
      options: [flag('--verified', 'take it as verified, without a look at the DNS')],
      examples: ['domain add acc_123 example.com', 'domain add acc_123 example.com --verified'],
      load: async () => (await import('./accounts.ts')).makeDomain,
    },
    {
      usage: 'domain verify <domain-id>',
      summary: 'look for the DKIM record of a domain in the DNS',
      examples: ['domain verify dom_123'],
      load: async () => (await import('./accounts.ts')).checkDomain,
    },
    {
      usage: 'queue status [destination]',
      summary: 'how many messages wait, and since when; for each destination why, the paused first',
      notes: 'A destination is named as the list has it, or by a domain of recipients.',
      examples: ['queue status', 'queue status google', 'queue status --json'],
      load: async () => (await import('./queue.ts')).status,
    },
    {
      usage: 'queue retry <message-id>',
      summary: 'try a waiting message now',
      examples: ['queue retry msg_123'],
      load: async () => (await import('./queue.ts')).retry,
    },
    {
      usage: 'queue cancel <message-id>',
      summary: 'take back a message that has not left',
      examples: ['queue cancel msg_123'],
      load: async () => (await import('./queue.ts')).cancel,
    },
  ],
};

const API_OPTIONS = [
  ...LOGIN_OPTIONS,
  flag('--live', 'the live key of data/first-run.json; its sandbox key by default'),
];
const API_NOTES =
  'Account and key are taken from the first that has them: the options, the environment, what postrider login kept, data/first-run.json beside a running service.';

const CLIENT: Section = {
  heading: 'Over the API',
  commands: [
    {
      usage: 'login',
      summary: 'keep address, account and key of an API for send and listen',
      options: LOGIN_OPTIONS,
      examples: ['login --url https://mail.example.com --id acc_123 --key pr_live_…'],
      load: async () => (await import('./api-client.ts')).login,
    },
    {
      usage: 'send',
      summary: 'send an email over the API; repeat an interrupted one to continue it',
      required: [
        text('--from <address>', 'the sender'),
        several('--to <address>', 'a recipient; may be given several times'),
        text('--subject <text>', 'the subject'),
      ],
      options: [
        text('--html <html>', 'body as HTML'),
        text('--text <text>', 'body as text'),
        flag('--attach <file...>', 'files to attach'),
        several('--cc <address>', 'a recipient of a copy; may be given several times'),
        several('--bcc <address>', 'a hidden recipient; may be given several times'),
        text('--idempotency-key <key>', 'two sends with the same key are one'),
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
      usage: 'listen',
      summary: 'post the events of an account to this machine as they happen, signed like a webhook',
      required: [text('--forward <url>', 'where the events are posted')],
      options: API_OPTIONS,
      notes: `${API_NOTES}\nUnder --json each line is one object. Ctrl-C ends it.`,
      examples: ['listen --forward http://localhost:4000/hook'],
      load: async () => (await import('./listen.ts')).listen,
    },
  ],
};

/** In the order of help. */
export const SECTIONS: readonly Section[] = [SERVICE, ACCOUNTS, SENDING, CLIENT, STORAGE];
