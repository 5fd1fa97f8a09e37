/** Every scenario by name. Together they run every operation. */
import * as accounts from './accounts.ts';
import { certificates } from './acme.ts';
import * as attachments from './attachments.ts';
import { audit } from './audit.ts';
import { deliveryReports } from './delivery-reports.ts';
import { erasure } from './erasure.ts';
import * as heldBack from './held-mail.ts';
import { inboundMail, operatorMail } from './inbound.ts';
import * as inboundRoutes from './inbound-routes.ts';
import { incidents } from './incidents.ts';
import { late } from './late-reports.ts';
import * as mail from './mail.ts';
import * as mailShown from './mail-queries.ts';
import { endingPauses, operatorKeys, operatorReads, relayLimits, sharedPauses, warmUpShares } from './operator.ts';
import { requestLog } from './request-log.ts';
import { sendingAgain } from './resending.ts';
import * as retention from './retention.ts';
import * as sandbox from './sandbox.ts';
import { savedFilters } from './saved-filters.ts';
import { shares } from './shares.ts';
import type { Scenario } from './stage.ts';
import * as counted from './statistics.ts';
import { suppressions } from './suppressions.ts';
import { templateShares } from './template-shares.ts';
import * as templates from './templates.ts';
import * as texts from './text-filters.ts';
import { stsPolicies, tlsReports } from './tls-policy.ts';
import * as users from './users.ts';
import * as webhooks from './webhooks.ts';

export const scenarios: Record<string, Scenario> = {
  accounts: accounts.accounts,
  logos: accounts.logos,
  keys: accounts.keys,
  'signing keys': accounts.signingKeys,
  'agent requests': accounts.agentRequests,
  credentials: accounts.credentials,
  'operator keys': operatorKeys,
  'users and the first run': users.users,
  'members of accounts': users.members,
  login: users.signingIn,
  'saved filters': savedFilters,
  'support access': users.supportAccess,
  'login limits': users.limits,
  'second factors': users.factors,
  'required two-factor authentication': users.requiredTwoFactor,
  'recipient TLS policies': stsPolicies,
  'TLS reports': tlsReports,
  approvals: accounts.approvals,
  'the audit log': audit,
  'ACME certificates': certificates,
  'sender domains': accounts.domains,
  suppressions,
  'erasure of a recipient': erasure,
  'facts and nodes': accounts.facts,
  accepting: mail.accepting,
  'concurrent acceptance': mail.atOnce,
  idempotency: mail.idempotency,
  delivering: mail.delivering,
  'parked mail resumed': mail.resuming,
  'mail for a paused destination': mail.puttingOff,
  'mail of a suspended account': heldBack.heldBack,
  'mail held by sending protection': heldBack.sendingProtection,
  'lifetimes of held mail': heldBack.heldLifetimes,
  'account quotas': heldBack.quotas,
  'bounces and complaints': late,
  'delivery reports': deliveryReports,
  'bounces of suppressed addresses': heldBack.bouncedAgain,
  'temporary suppressions': heldBack.bouncedForDays,
  'content that is not retained': mail.contentOf,
  'changes before sending': mailShown.changing,
  lists: mailShown.lists,
  'filters of text': texts.textFilters,
  'pages of filtered text': texts.textFilterPages,
  'parts of many texts': texts.partsOfManyTexts,
  'events of a recipient': texts.eventsOfRecipient,
  'filters of the inbox': texts.inboxFilters,
  'names of accounts': texts.accountNames,
  'links to messages': shares,
  'emails and their copies': mailShown.emails,
  'the sandbox': mailShown.sandbox,
  'sandbox clock': sandbox.movingTheClock,
  'sandbox clock reset': sandbox.resettingTheClock,
  'simulated outcomes': sandbox.playingByHand,
  'links to templates': templateShares,
  templates: templates.templates,
  'template changes': templates.templateChanges,
  'templates of both modes': templates.templatesOfModes,
  'concurrent templates': templates.templatesAtOnce,
  'opens, clicks, and unsubscribes': templates.engagement,
  endpoints: webhooks.endpoints,
  'next attempts of endpoints': webhooks.nextAttempts,
  'health of endpoints': webhooks.health,
  'endpoints that get another URL': webhooks.otherUrl,
  'carrying events': webhooks.carrying,
  'events in the Resend format': webhooks.formatted,
  'events without a counterpart in the Resend format': webhooks.formattedLater,
  'busy endpoints and replays': webhooks.crowds,
  'replays of events that wait for a retry': webhooks.retriesOfReplay,
  'registering manifests': attachments.registering,
  'unsent files': attachments.unsentFiles,
  'concurrent registration': attachments.registeringAtOnce,
  uploading: attachments.uploading,
  'sending a submission': attachments.sending,
  'concurrent sends of a submission': attachments.sendingAtOnce,
  'settling mail with uploaded files': attachments.settling,
  'resending mail with uploaded files': sendingAgain,
  'retention of submissions': attachments.keeping,
  'retention of emails': retention.emails,
  'retention of the inbox': retention.inbox,
  'retention of webhook deliveries': retention.deliveries,
  'inbound routes': inboundRoutes.routes,
  'mail of inbound routes': inboundRoutes.mails,
  'large inbound events': inboundRoutes.largeEvents,
  'replays of inbound mail': inboundRoutes.replayed,
  'inbound mail of a sandbox clock': inboundRoutes.aheadOfTime,
  incidents,
  'request log': requestLog,
  'operator reads': operatorReads,
  'ended pauses': endingPauses,
  'shared pauses': sharedPauses,
  'inbound mail': inboundMail,
  'mail to operators': operatorMail,
  'warm-up shares': warmUpShares,
  'relay limits': relayLimits,
  'log times': retention.segments,
  statistics: counted.statistics,
  'statistics by mailbox provider': counted.mailboxProviders,
};
