"""Plans what queries share (slices, conditions, groupings) and lays the plan out for one Spark job."""
