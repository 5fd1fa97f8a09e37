/**
 * Templates: the Liquid language in subject, html, and text, with Postrider's rules for escaping, missing values, and limits; and stored
 * templates with names and versions.
 */

export { threadTimeMs } from './context.ts';
export { type Check, ConversionError, convertTemplate, type Dialect } from './conversion/conversion.ts';
export { fromLiquid, toLiquid } from './conversion/resend.ts';
export { UNSUBSCRIBE_VARIABLE } from './language.ts';
export { mentionsUnsubscribeLink } from './parse.ts';
export {
  accountVariables,
  applyDeclarations,
  createRender,
  type MailToRender,
  missingFailure,
  type ParsedParts,
  type RenderedMail,
} from './render.ts';
export { removeTemplateSharesOperation } from './share-store.ts';
export { createTemplateSource, type TemplateSource, type UsableTemplate } from './source.ts';
export { findExtrasOperation, storeExtraOperation, type TemplateExtra } from './store.ts';
export { MAX_SOURCE_LENGTH, type TemplateContent } from './template.ts';
export { validateContent, validateSources } from './validate.ts';
