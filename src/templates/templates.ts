/**
 * Templates: the Liquid language in subject, html, and text, with Postrider's rules for escaping, missing values, and limits; and stored
 * templates with names and versions.
 */

export { threadTimeMs } from './context.ts';
export { type Check, ConversionError, convertTemplate, type Dialect } from './conversion/conversion.ts';
export { fromLiquid, toLiquid } from './conversion/resend.ts';
export { UNSUBSCRIBE_VARIABLE } from './language.ts';
export { namesLink } from './parse.ts';
export {
  accountVariables,
  createRender,
  missingFailure,
  type ParsedParts,
  type Rendered,
  settleDeclared,
  type ToRender,
} from './render.ts';
export { createTemplateSource, type TemplateSource, type UsableTemplate } from './source.ts';
export { describeTemplateOperation, findExtrasOperation, type TemplateExtra } from './store.ts';
export { MAX_SOURCE_LENGTH, type TemplateContent } from './template.ts';
export { validateContent, validateSources } from './validate.ts';
