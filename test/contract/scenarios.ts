/** Every scenario by name. Together they run every operation. */
import * as accounts from './accounts.ts';
import { certificates } from './acme.ts';
import * as attachments from './attachments.ts';
import { audit } from './audit.ts';
import { deliveryReports } from './delivery-reports.ts';
import { erasure } from './erasure.ts';
import * as heldBack from './held-back.ts';
import { inboundMail, operatorMail } from './inbound.ts';
import * as inboundRoutes from './inbound-routes.ts';
import { incidents } from './incidents.ts';
import { late } from './late.ts';
import * as mail from './mail.ts';
import * as mailShown from './mail-shown.ts';
import { endingPauses, operatorKeys, operatorReads, sharedPauses, warmUpShares } from './operator.ts';
import { requestLog } from './request-log.ts';
import * as retention from './retention.ts';
import * as sandbox from './sandbox.ts';
import { sendingAgain } from './sending-again.ts';
import { shares } from './shares.ts';
import type { Scenario } from './stage.ts';
import { statistics } from './statistics.ts';
import { suppressions } from './suppressions.ts';
import * as templates from './templates.ts';
import { stsPolicies, tlsReports } from './tls-policy.ts';
import * as users from './users.ts';
import * as webhooks from './webhooks.ts';

export const scenarios: Record<string, Scenario> = {
  accounts: accounts.accounts,
  keys: accounts.keys,
  'signing keys': accounts.signingKeys,
  'agent requests': accounts.agentRequests,
  credentials: accounts.credentials,
  'operator keys': operatorKeys,
  'users and the first run': users.users,
  'members of accounts': users.members,
  'signing in': users.signingIn,
  'support access': users.supportAccess,
  'limits of signing in': users.limits,
  'second factors': users.factors,
  'policies of recipients on TLS': stsPolicies,
  'TLS reports': tlsReports,
  approvals: accounts.approvals,
  'the audit log': audit,
  'certificates of an authority': certificates,
  'sender domains': accounts.domains,
  suppressions,
  'erasure of a recipient': erasure,
  'facts and nodes': accounts.facts,
  accepting: mail.accepting,
  'accepting at once': mail.atOnce,
  idempotency: mail.idempotency,
  delivering: mail.delivering,
  'parked mail that comes back': mail.resuming,
  'mail for a paused destination': mail.puttingOff,
  'mail of a suspended account': heldBack.heldBack,
  'mail held by sending protection': heldBack.sendingProtection,
  'lifetimes of mail held by sending protection': heldBack.heldLifetimes,
  'quotas of an account': heldBack.quotas,
  'what comes back': late,
  'delivery reports': deliveryReports,
  'bounces of addresses on the list': heldBack.bouncedAgain,
  'bounces that suppress for some days': heldBack.bouncedForDays,
  'content that is not kept': mail.contentOf,
  'changes before a message leaves': mailShown.changing,
  lists: mailShown.lists,
  'links to messages': shares,
  'emails and their copies': mailShown.emails,
  'the sandbox': mailShown.sandbox,
  'the clock of the sandbox': sandbox.movingTheClock,
  'the clock of the sandbox set back to real time': sandbox.resettingTheClock,
  'outcomes played by hand': sandbox.playingByHand,
  templates: templates.templates,
  'template changes': templates.templateChanges,
  'templates of both modes': templates.templatesOfModes,
  'templates at once': templates.templatesAtOnce,
  'what recipients do': templates.engagement,
  endpoints: webhooks.endpoints,
  'carrying events': webhooks.carrying,
  'events in the format of another service': webhooks.formatted,
  'crowded endpoints and replays': webhooks.crowds,
  'registering manifests': attachments.registering,
  'unsent files': attachments.unsentFiles,
  'registering at once': attachments.registeringAtOnce,
  uploading: attachments.uploading,
  'sending a submission': attachments.sending,
  'sending a submission at once': attachments.sendingAtOnce,
  'settling what is made of files': attachments.settling,
  'sending again what is made of files': sendingAgain,
  'what is kept of submissions': attachments.keeping,
  'what is kept of emails': retention.emails,
  'what is kept of the inbox': retention.inbox,
  'what is kept of deliveries': retention.deliveries,
  'inbound routes': inboundRoutes.routes,
  'mail of inbound routes': inboundRoutes.mails,
  'large events of mail that came in': inboundRoutes.largeEvents,
  'replays of mail of inbound routes': inboundRoutes.replayed,
  incidents,
  'request log': requestLog,
  'what an operator reads': operatorReads,
  'pauses that are ended': endingPauses,
  'pauses that nodes share': sharedPauses,
  'mail that came in': inboundMail,
  'mail to operators': operatorMail,
  'shares of a warm-up': warmUpShares,
  'times in the log': retention.segments,
  statistics,
};
