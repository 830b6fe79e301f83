//! A registry that each component is handed and registers its own metrics in.

use crate::exit::Program;
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Counter, Error, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, Opts, TextEncoder,
};

/// Metrics of one process. Clones share them.
#[derive(Debug, Clone)]
pub struct Registry {
    inner: prometheus::Registry,
}

impl Registry {
    /// A registry holding `asgc_build_info` and the `process_*` metrics (seconds, bytes).
    ///
    /// # Errors
    /// When the process's own figures cannot be registered.
    pub fn new(program: Program) -> Result<Self, Error> {
        let registry = Self {
            inner: prometheus::Registry::new(),
        };
        let info = Opts::new("asgc_build_info", "Always 1; the labels say which build this is.")
            .const_label("program", program.name)
            .const_label("version", program.version);
        registry.register(IntGauge::with_opts(info)?)?.set(1);
        registry.inner.register(Box::new(ProcessCollector::for_self()))?;
        Ok(registry)
    }

    /// Registers a metric and gives it back.
    ///
    /// # Errors
    /// When a metric of that name is registered already.
    pub fn register<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, Error> {
        self.inner.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    /// A counter; its name ends in `_total`.
    ///
    /// # Errors
    /// When the name is not a metric's name, or taken.
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.register(IntCounter::new(name, help)?)
    }

    /// A counter of what comes in fractions.
    ///
    /// # Errors
    /// As [`Registry::counter`].
    pub fn float_counter(&self, name: &str, help: &str) -> Result<Counter, Error> {
        self.register(Counter::new(name, help)?)
    }

    /// Counters that differ in labels.
    ///
    /// # Errors
    /// As [`Registry::counter`].
    pub fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// A gauge; its name ends in its unit.
    ///
    /// # Errors
    /// As [`Registry::counter`].
    pub fn gauge(&self, name: &str, help: &str) -> Result<Gauge, Error> {
        self.register(Gauge::new(name, help)?)
    }

    /// Gauges that differ in labels.
    ///
    /// # Errors
    /// As [`Registry::counter`].
    pub fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.register(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// A histogram with upper bounds `buckets`, in the unit that ends its name.
    ///
    /// # Errors
    /// As [`Registry::counter`], and when the bounds do not rise.
    pub fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        self.register(Histogram::with_opts(
            HistogramOpts::new(name, help).buckets(buckets.to_vec()),
        )?)
    }

    /// Histograms that differ in the label `label`.
    ///
    /// # Errors
    /// As [`Registry::histogram`].
    pub fn histograms(&self, opts: HistogramOpts, labels: &[&str]) -> Result<HistogramVec, Error> {
        self.register(HistogramVec::new(opts, labels)?)
    }

    /// All metrics in Prometheus' text format 0.0.4.
    ///
    /// # Errors
    /// When a metric cannot be written; the format has no way to leave out just one.
    pub fn encode(&self) -> Result<String, Error> {
        TextEncoder::new().encode_to_string(&self.inner.gather())
    }
}
