/** The frame of the operator's pages: to others it says whom they are for, and asks the service for nothing. */
import type { ComponentType } from 'react';
import { IconLock } from '../../icons.ts';
import { Page } from '../../parts/page.tsx';
import { EmptyState } from '../../parts/states.tsx';
import { useScope } from '../../scope.ts';
import { operators } from '../../texts/operator.ts';

export function forOperators(title: string, Content: ComponentType): ComponentType {
  return function OperatorPage() {
    const { person } = useScope();
    if (person.isOperator) return <Content />;
    return (
      <Page title={title}>
        <EmptyState icon={<IconLock size={28} aria-hidden />} title={operators.forbidden}>
          {operators.forbiddenHint}
        </EmptyState>
      </Page>
    );
  };
}
