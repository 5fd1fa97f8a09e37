/**
 * The handlers of reports on our mail, and of mail to the addresses in List-Unsubscribe. Reading says what a mail means and changes
 * nothing; recording does it all in one transaction, and then counts it and logs it. A report about a copy that is being sent at this
 * moment is read again when that is over: a bounce may be quicker than the record of the delivery.
 */
import type { Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import { newId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { InboundResult, Metrics } from '../base/metrics.ts';
import type { Unsubscribing } from '../engagement/engagement.ts';
import { sameAddressKey } from '../mail/address.ts';
import type { Letter } from '../mail/report/letter.ts';
import { type Report, readReport } from '../mail/report/report.ts';
import type { ReturnPathClaim, TokenAddresses } from '../mail/token-address.ts';
import { findSentOperation, type LateAnswer, type LateResult, type SentCopy } from '../messages/messages.ts';
import type { Database } from '../storage/database.ts';
import type { Found, Handler, InboundLease, InboundMail, RecordedFindings } from './inbound-mail.ts';
import { type OperatorMailOptions, readOperatorMail, recordOperatorMail } from './operator-mail.ts';
import { type ComplaintContext, type ReportResults, resultsOfBounce, resultsOfComplaint } from './report-results.ts';
import { recordReportsOperation } from './report-store.ts';

export interface ReportHandlerDeps {
  database: Database;
  clock: Clock;
  tokens: Pick<TokenAddresses, 'open'>;
  log: Log;
  metrics: Pick<Metrics, 'inbound' | 'bounced'>;
  /** What is done with mail to postmaster and abuse that is no report. */
  operators: OperatorMailOptions;
}

interface Finding {
  results: LateResult[];
  unsubscribing: Unsubscribing | null;
  ignored: InboundResult[];
  /** Of mail to postmaster and abuse that operators have to read. */
  letter: Letter | null;
}

/** Of a name of a host (RFC 1035 §3.1); in EHLO anything may stand. */
const MAX_REPORTER = 255;

type FoundReport = Found<Finding, InboundLease | null>;
type ReportHandler = Handler<Finding, InboundLease | null>;
type ReportHandlers = Record<'return-path' | 'abuse' | 'postmaster' | 'unsubscribe', ReportHandler>;

export function createReportHandlers(deps: ReportHandlerDeps): ReportHandlers {
  const handlerOf = (read: (mail: InboundMail) => Promise<Finding>): ReportHandler => ({
    read,
    // The mail stays as it is, for who may want to look.
    unreadable: async () => {
      deps.metrics.inbound.unreadable.inc();
      return undefined;
    },
    record: (found) => record(deps, found),
  });
  const report = handlerOf((mail) => readFinding(deps, mail));
  return {
    ...{ 'return-path': report, abuse: report, postmaster: report },
    unsubscribe: handlerOf((mail) => readUnsubscribe(deps, mail)),
  };
}

async function readFinding(deps: ReportHandlerDeps, mail: InboundMail): Promise<Finding> {
  const content = await mail.content();
  const report = await readReport(content);
  const { isTooEarly, ...found } = await resultsOf(deps, mail, report);
  if (isTooEarly) throw new Unavailable('it is about a message that is being sent at this moment');
  const isForOperators = mail.use.kind !== 'return-path' && found.results.length === 0 && !isDeliveryReport(report);
  return { ...found, unsubscribing: null, letter: isForOperators ? await readOperatorMail(mail) : null };
}

/** A report of a program on a delivery; what a person writes as postmaster may read like one. */
const isDeliveryReport = (report: Report): boolean => report.kind === 'bounce' && report.isForMachines;

async function resultsOf(
  { database, clock, tokens }: ReportHandlerDeps,
  mail: InboundMail,
  report: Report,
): Promise<ReportResults> {
  const ignored = (why: InboundResult): ReportResults => ({ results: [], ignored: [why], isTooEarly: false });
  if (report.kind === 'none') return ignored(report.why);
  const claim = mail.use.kind === 'return-path' ? mail.use.copy : undefined;
  if (report.kind === 'bounce') {
    if (!claim) return ignored('unproven');
    return resultsOfBounce(report, await copiesOf(database, claim), clock.now());
  }
  const nowMs = clock.now();
  const claims = claim ? [claim] : report.tokens.flatMap((local) => tokens.open(local, nowMs) ?? []);
  const complained = await complainedCopies(database, claims, report.mail.messageId);
  const reporter = mail.client.helo.slice(0, MAX_REPORTER) || null;
  return resultsOfComplaint(report, { ...complained, reporter, nowMs });
}

function copiesOf(database: Database, { messageId, isShared }: ReturnPathClaim): Promise<SentCopy[]> {
  return database.execute(findSentOperation, { messageId, isShared });
}

/** By the first token that stands for one copy, else by the first that stands for several, else by the Message-ID. */
async function complainedCopies(
  database: Database,
  claims: readonly ReturnPathClaim[],
  headerMessageId: string | null,
): Promise<Pick<ComplaintContext, 'copies' | 'proof'>> {
  const claim = claims.find(({ isShared }) => !isShared) ?? claims[0];
  if (claim) return { copies: await copiesOf(database, claim), proof: claim.isShared ? 'transaction' : 'copy' };
  const copies = headerMessageId === null ? [] : await database.execute(findSentOperation, { headerMessageId });
  return { copies, proof: 'message-id' };
}

/** Whatever it says: the address was in that mail alone, for this. */
async function readUnsubscribe({ database, clock }: ReportHandlerDeps, mail: InboundMail): Promise<Finding> {
  const claim = mail.use.kind === 'unsubscribe' ? mail.use.copy : undefined;
  const [copy] = claim ? await copiesOf(database, { ...claim, isShared: false }) : [];
  if (!copy) return { results: [], unsubscribing: null, ignored: ['unknown-mail'], letter: null };
  const nowMs = clock.now();
  const { accountId, messageId, recipient } = copy;
  const unsubscribing: Unsubscribing = {
    ...{ accountId, mode: 'live', messageId, email: sameAddressKey(recipient), method: 'mail' },
    ...{ eventId: newId('evt', nowMs), nowMs },
  };
  return { results: [], unsubscribing, ignored: [], letter: null };
}

/** Of the mails that are recorded in one transaction; a mail with more goes alone. Others have theirs in between. */
const MOST_RESULTS = 250;

function* groupsOf(found: readonly FoundReport[]): Generator<FoundReport[]> {
  let group: FoundReport[] = [];
  let results = 0;
  for (const one of found) {
    results += one.finding.results.length;
    if (results > MOST_RESULTS && group.length > 0) {
      yield group;
      group = [];
      results = one.finding.results.length;
    }
    group.push(one);
  }
  yield group;
}

async function record(deps: ReportHandlerDeps, found: readonly FoundReport[]): Promise<RecordedFindings> {
  const letters = found.flatMap(({ lease, mail, finding }) =>
    lease !== null && finding.letter !== null ? [{ lease, mail, finding: finding.letter }] : [],
  );
  const reports = found.filter(({ finding }) => finding.letter === null);
  const recorded = reports.length > 0 ? await recordReports(deps, reports) : { lost: [], blobKeys: [] };
  if (letters.length === 0) return recorded;
  const kept = await recordOperatorMail({ ...deps, options: deps.operators }, letters);
  for (const { finding } of found)
    if (finding.letter !== null) for (const result of finding.ignored) deps.metrics.inbound[result].inc();
  return { lost: [...recorded.lost, ...kept.lost], blobKeys: [...recorded.blobKeys, ...kept.blobKeys] };
}

async function recordReports(deps: ReportHandlerDeps, found: readonly FoundReport[]): Promise<RecordedFindings> {
  const lost: number[] = [];
  const blobKeys: string[] = [];
  for (const group of groupsOf(found)) {
    const meanings = group.map(({ lease, mail: { id: inboundId }, finding: { results, unsubscribing } }) => ({
      ...{ inboundId, lease, results, unsubscribing },
    }));
    const recorded = await deps.database.execute(recordReportsOperation, meanings);
    lost.push(...recorded.lost);
    blobKeys.push(...recorded.blobKeys);
    const byId = new Map(recorded.answers.map((answer) => [answer.inboundId, answer]));
    for (const one of group) {
      const answer = byId.get(one.mail.id);
      if (answer) note(deps, one, answer);
    }
  }
  return { lost, blobKeys };
}

const RESULT = { Bounce: 'bounce', DeliveryDelay: 'delay', Complaint: 'complaint' } as const;

/** Counts and logs what was recorded of a mail. */
function note(
  { metrics, log }: ReportHandlerDeps,
  { mail: { id: inboundId }, finding }: FoundReport,
  answer: { results: LateAnswer[]; unsubscribed: boolean },
): void {
  const done: InboundResult[] = [...finding.ignored];
  for (const [index, { accountId, messageId, eventId, type }] of finding.results.entries()) {
    const settled = answer.results[index]!;
    const result = settled === 'recorded' ? RESULT[type] : settled;
    if (result === 'bounce') metrics.bounced.live.inc();
    if (settled === 'recorded') log.info({ accountId, mode: 'live', messageId, eventId, inboundId }, LOGGED[type]);
    done.push(result);
  }
  const { unsubscribing } = finding;
  if (unsubscribing) {
    const { accountId, messageId, eventId } = unsubscribing;
    done.push(answer.unsubscribed ? 'unsubscribe' : 'repeated');
    if (answer.unsubscribed)
      log.info({ accountId, mode: 'live', messageId, eventId, inboundId }, 'recipient unsubscribed by email');
  }
  for (const result of done) metrics.inbound[result].inc();
  log.debug({ inboundId, results: done }, 'inbound message processed');
}

const LOGGED = { Bounce: 'mail bounced late', DeliveryDelay: 'mail delayed late', Complaint: 'mail complained about' };
