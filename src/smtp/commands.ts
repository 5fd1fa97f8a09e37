/**
 * The commands common to every port, with their preconditions; every refusal has an enhanced status code (RFC 3463). Commands that were not
 * offered are refused completely, and data that would follow them is not executed. MAIL, RCPT, DATA, and AUTH depend on the port
 * (submission.ts, inbound.ts).
 */
import { quote } from '../mail/mime/submitted-refusal.ts';
import { heloName, parseCommand } from './command.ts';
import type { CommandHandler, Dialogue, Pending } from './dialogue.ts';

/** Offered after the name; those of the port and STARTTLS are added if they apply. */
const EXTENSIONS = ['PIPELINING', '8BITMIME', 'SMTPUTF8'];

function greet(dialogue: Dialogue, argument: string, isExtended: boolean): undefined {
  const name = heloName(argument);
  if (name === undefined)
    return dialogue.clientError(
      `501 5.5.4 ${isExtended ? 'EHLO' : 'HELO'} requires your host name, such as client.example`,
    );
  dialogue.helo = name;
  dialogue.isExtended = isExtended;
  dialogue.envelope = undefined;
  dialogue.fruitless += 1;
  const { hostname, limits, profile } = dialogue.services;
  if (!isExtended) return dialogue.reply(`250 ${hostname}`);
  const offered = [
    ...EXTENSIONS,
    `SIZE ${limits.maxMessageBytes}`,
    ...profile.offered(dialogue),
    'ENHANCEDSTATUSCODES',
  ];
  if (!dialogue.isSecure) offered.push('STARTTLS');
  else if (profile.verbs.has('AUTH') && dialogue.login === undefined) offered.push('AUTH PLAIN LOGIN');
  const lines = [hostname, ...offered];
  for (const [index, line] of lines.entries()) dialogue.reply(`250${index === lines.length - 1 ? ' ' : '-'}${line}`);
}

function startTls(dialogue: Dialogue, argument: string): undefined {
  if (argument !== '') return dialogue.clientError('501 5.5.4 STARTTLS takes no parameters');
  if (dialogue.isSecure) return dialogue.clientError('503 5.5.1 TLS is already active');
  dialogue.startTls();
}

/** Commands without effect; they are counted, so that a session cannot continue with them forever. */
const idle =
  (line: string): CommandHandler =>
  (dialogue) => {
    dialogue.fruitless += 1;
    dialogue.reply(line);
  };

export function withoutArgument(handler: CommandHandler): CommandHandler {
  return (dialogue, argument) => {
    if (argument !== '') return dialogue.clientError(`501 5.5.4 ${dialogue.verb ?? 'the command'} takes no parameters`);
    return handler(dialogue, argument);
  };
}

/** Another protocol, most likely from a browser (cross-protocol request forgery). */
const otherProtocol: CommandHandler = (dialogue) => dialogue.hangUp('421 4.7.0 protocol error: this is an SMTP server');

const HANDLERS: ReadonlyMap<string, CommandHandler> = new Map<string, CommandHandler>([
  ['EHLO', (dialogue, argument) => greet(dialogue, argument, true)],
  ['HELO', (dialogue, argument) => greet(dialogue, argument, false)],
  ['STARTTLS', startTls],
  [
    'RSET',
    withoutArgument((dialogue) => {
      dialogue.envelope = undefined;
      dialogue.fruitless += 1;
      dialogue.reply('250 2.0.0 OK');
    }),
  ],
  ['NOOP', idle('250 2.0.0 OK')],
  ['HELP', idle('214 2.0.0 EHLO STARTTLS MAIL RCPT DATA RSET NOOP QUIT; see RFC 5321')],
  ['VRFY', idle('252 2.5.0 cannot VRFY the address, but will accept a message and attempt delivery')],
  ['QUIT', withoutArgument((dialogue) => dialogue.hangUp('221 2.0.0 goodbye'))],
  ['AUTH', (dialogue) => dialogue.clientError('502 5.5.1 AUTH is not supported')],
  ['EXPN', (dialogue) => dialogue.clientError('502 5.5.1 EXPN is not supported')],
  ['TURN', (dialogue) => dialogue.clientError('502 5.5.1 TURN is not supported')],
  ['ETRN', (dialogue) => dialogue.clientError('502 5.5.1 ETRN is not supported')],
  // Its octets follow immediately, and would run as commands if the session continued.
  ['BDAT', (dialogue) => dialogue.hangUp('502 5.5.1 BDAT is not supported; use DATA')],
  ...['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE', 'PRI'].map(
    (verb): [string, CommandHandler] => [verb, otherProtocol],
  ),
]);

/** Runs one command line; returns a promise if it has to wait. */
export function runCommand(dialogue: Dialogue, line: string): Pending {
  const { verb, argument } = parseCommand(line);
  const handler = dialogue.services.profile.verbs.get(verb) ?? HANDLERS.get(verb);
  if (handler === undefined) return dialogue.clientError(`500 5.5.2 unknown command ${quote(verb)}`);
  dialogue.verb = verb;
  const { limits } = dialogue.services;
  if (dialogue.fruitless >= limits.maxFruitless) {
    return dialogue.hangUp('421 4.7.0 too many commands without a message');
  }
  return handler(dialogue, argument);
}
