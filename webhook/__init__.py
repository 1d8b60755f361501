"""The admission webhook: AdmissionReview in, AdmissionReview out."""
